"""The known-answer set: bugs that were reported against vLLM, the releases that have them, and what kvrace says of each.

``answers.toml`` holds what is expected, written by hand from public threads. ``measured.json`` holds what kvrace found on every
release, written by ``python -m spec.known_answers``. The table in spec/known-answers.md is made from both.
"""
