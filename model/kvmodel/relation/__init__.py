"""One relation, many readers: who may own, free, offer and touch a block, as guarded commands over a small relational state.

``terms``       the language: sorts, relations, formulas, guarded actions
``vocabulary``  the state
``ownership``   how a request gives its blocks up
``lifecycle``   how a request comes and ends
``scheduling``  what the scheduler may do
``reports``     how it takes a report, by the policy in force
``connector``   what the connector may do under a contract
``policies``    what the scheduler does with a report: the disputed point
``safety``      what must hold, and the inductive invariant
``model``       all of it for one policy and one contract

It is read by z3 (:mod:`kvmodel.relation.symbolic`), by the explicit explorer (:mod:`kvmodel.relation.finite`), by the conformance
check, by the Promela generator and by the documents. Nothing here knows any of them.
"""
