"""What z3 says of the relation: proofs for any number of requests, blocks and steps, and shortest orders where there is none.

``obligations``  what has to be shown so that the invariant is inductive and implies the properties; no solver here
``solve``        each obligation to z3; whatever is not "proved" is not
``theorems``     the statements: for which policy, contract and assumptions
``propositions`` grounded formulas for z3
``induction``    a counterexample to induction: the smallest state from which an action breaks a conjunct
``bounded``      bounded model checking: the fewest events after which something is so
``orders``       what the bounded search found, as events that a scheduler can be played
``vacuity``      what fails without a conjunct or a guard
``situations``   what has to be reachable for the proofs to mean something
``words``        states and moves in words

Only ``obligations``, ``theorems`` and ``words`` do without importing z3.
"""
