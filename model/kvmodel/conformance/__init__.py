"""Is every step that a scheduler was seen to make one that the relation allows?

``abstraction``  what was observed, as a state of the relation
``explanation``  what the scheduler did in answer to one event, as moves of the relation
``divergence``   where the two part, and the nearest step that is allowed
``judge``        one transition held against the relation; nothing is carried from one to the next
"""
