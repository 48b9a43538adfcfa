"""Tables and diagrams made from the relation (model/kvmodel/relation)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from spec.markdown import markdown_table

from kvmodel.contract import MEANINGS, Contract
from kvmodel.relation.finite import FiniteInstance
from kvmodel.relation.lives import lives
from kvmodel.relation.model import Model
from kvmodel.relation.policies import POLICIES
from kvmodel.relation.safety import ASSUMPTIONS
from kvmodel.relation.scoped import scoped
from kvmodel.relation.terms import Action, Named, Symbol
from kvmodel.relation.text import text
from kvmodel.relation.vocabulary import (
    INITIALLY_TRUE,
    PHASE_MEANINGS,
    RIGID,
    STATE,
    phase,
    stage,
)
from kvmodel.scope import Scope

EVERYTHING = Contract.parse("unclaimed,duplicate,unsolicited,lossy")
_SCHEDULERS_OWN = 10
"""So many symbols of ``STATE`` are the scheduler's own; the others are the truth of the workers and the connector."""


@cache
def _alone() -> FiniteInstance:
    """One request with everything that can happen to it: two steps in flight, shared blocks, loads that fail."""
    scope = Scope(("load_save",), "async", prefix_sharing=True)
    return scoped(Model(POLICIES["wait_for_all"], Contract()), scope, blocks=1, failures=True)


def phases() -> str:
    return markdown_table(["phase", "meaning"], [[f"`{name}`", meaning] for name, meaning in PHASE_MEANINGS.items()])


def _diagram(symbol: Symbol, first: str) -> str:
    edges: dict[tuple[str, str], list[str]] = {}
    order = [action.name for action in _alone().actions]
    for before, action, after in sorted(lives(_alone(), symbol), key=lambda edge: (order.index(edge[1]), edge)):
        edges.setdefault((before, after), []).append(action)
    lines = [f"    {before} --> {after}: {', '.join(actions)}" for (before, after), actions in edges.items()]
    return "\n".join(["```mermaid", "stateDiagram-v2", f"    [*] --> {first}", *lines, "```"]) + "\n"


def life_of_a_request() -> str:
    return _diagram(phase, "absent")


def life_of_a_step() -> str:
    return _diagram(stage, "idle")


@cache
def _models() -> dict[str, Model]:
    """The relation under each contract, with each assumption under all weakenings together, and with the policies that do more than
    take reports."""
    contracts = {f"contract `{name}`": Model(POLICIES["wait_for_all"], Contract.parse(name)) for name in MEANINGS}
    weakest = Model(POLICIES["wait_for_all"], EVERYTHING)
    assumed = {f"assumption `{name}`": replace(weakest, assumed=frozenset({name})) for name in ASSUMPTIONS}
    others = {f"policy `{name}`": Model(POLICIES[name], Contract()) for name in ("not_while_loading", "reclaim")}
    return {**contracts, **assumed, **others}


@cache
def _all_actions() -> tuple[Action, ...]:
    """Every action of every contract, each with every guard it has under any contract, assumption or policy."""
    found: dict[str, Action] = {}
    for model in (Model(POLICIES["wait_for_all"], EVERYTHING), *_models().values()):
        for action in model.actions:
            known = found.setdefault(action.name, action)
            found[action.name] = replace(known, guards=tuple(dict.fromkeys((*known.guards, *action.guards))))
    return tuple(found.values())


def _under(action: Action, guard: Named) -> str:
    """Where a guard of an action is in force; empty when it always is."""
    having = {name: a for name, model in _models().items() for a in model.actions if a.name == action.name}
    inside = [name for name, a in having.items() if guard in a.guards]
    outside = [name for name in having if name not in inside and name.startswith("contract")]
    if len(inside) == len(having):
        return ""
    return f"not under {', '.join(outside)}" if len(outside) == 1 else ", ".join(inside)


def actions() -> str:
    moves: dict[str, list[str]] = {}
    for before, action, after in sorted(lives(_alone(), phase)):
        moves.setdefault(action, []).append(f"{before} → {after}")
    rows = []
    for action in _all_actions():
        conditions = [(guard.name, _under(action, guard)) for guard in action.guards]
        when = "; ".join(f"{name} ({under})" if under else name for name, under in conditions) or "always"
        life = "<br>".join(moves.get(action.name, [])) or "-"
        rows.append([f"`{action.name}`", action.who, action.meaning, life, when, action.source])
    return markdown_table(["action", "by", "what happens", "the request", "only if", "in vLLM"], rows)


def guards() -> str:
    users: dict[Named, dict[str, str]] = {}
    for action in _all_actions():
        for guard in action.guards:
            users.setdefault(guard, {})[action.name] = _under(action, guard)
    rows = []
    for guard, where in users.items():
        under = "; ".join(dict.fromkeys(filter(None, where.values()))) or "always"
        rows.append(
            [guard.name, f"`{text(guard.formula)}`", ", ".join(f"`{name}`" for name in where), under, guard.why]
        )
    return markdown_table(["guard", "formula", "of", "in force", "why, or where from"], rows)


def state() -> str:
    rows = []
    for place, symbol in enumerate((*STATE, *RIGID)):
        whose = (
            "the scheduler" if place < _SCHEDULERS_OWN else "workers, connector" if symbol in STATE else "never changes"
        )
        arguments = ", ".join(sort.name.lower() for sort in symbol.arguments)
        start = symbol.initially or ("all" if symbol in INITIALLY_TRUE else "-" if symbol in RIGID else "none")
        rows.append(
            [f"`{symbol.name}({arguments})`" if arguments else f"`{symbol.name}`", whose, symbol.meaning, start]
        )
    return markdown_table(["part of the state", "known to", "meaning", "at the start"], rows)


def changes() -> str:
    rows = []
    for action in _all_actions():
        changed = [f"`{change.symbol.name}`" for change in action.changes]
        checked = list(dict.fromkeys(f"`{check.name}`" for check in action.checks))
        rows.append([f"`{action.name}`", ", ".join(changed), ", ".join(checked) or "-"])
    return markdown_table(["action", "changes", "what must hold whenever it happens"], rows)


def policies() -> str:
    rows = [[f"`{policy.name}`", policy.meaning] for policy in POLICIES.values()]
    return markdown_table(["policy", "what a report does"], rows)


_DEADLINE = "deadline"
_COMING: dict[str, tuple[tuple[str, ...], ...]] = {
    "not_while_loading": (("load",),),
    "reclaim": (("load", "save"), ("save", "load"), (_DEADLINE, "load")),
}
"""What comes after the abort where it is not the two reports, in both orders."""


def _after_each(policy: str, coming: tuple[str, ...]) -> Iterator[str]:
    """What is so after the abort and after each report, for a load and a save of one request that are both pending."""
    instance = scoped(Model(POLICIES[policy], Contract()), Scope(("load_save",)), blocks=1)
    at = instance.start
    answer = "claimed" if POLICIES[policy].asks_while_loading else "nothing"
    for name in ("add A", "build 1", "take A 1", "start_load A", "dispatch 1", f"abort A {answer} at_once"):
        at = instance.move_named[name].apply(at)
    yield _so(instance, at)
    for what in coming:
        if what == _DEADLINE:
            move = instance.move_named["reclaim A at_once"]
        else:
            known = instance.move_named[f"report {what} A A at_once"]
            move = known if known.enabled(at) else instance.move_named[f"report_unknown {what} A"]
        if not move.survives(at):
            yield "**the engine dies** (`no-crash`)"
            return
        at = move.apply(at)
        yield _so(instance, at)


def _so(instance: FiniteInstance, at: int) -> str:
    true = {
        (symbol.name, *(element.name for element in elements)) for symbol, elements in instance.layout.true_cells(at)
    }
    where = next(iter(instance.layout.values(at).values())).name
    runs = [direction for direction in ("load", "save") if ("transfer", direction, "A") in true]
    block = "block in the pool" if ("free", "1") in true else "block kept"
    running = f"{' and '.join(runs)} still run{'s' if len(runs) == 1 else ''}" if runs else "no transfer runs"
    words = [f"`{where}`", block, running]
    broken = list(dict.fromkeys(rule.name for rule, holds in instance.judges if not holds(at)))
    return ", ".join(words) + "".join(f"; **`{name}` broken**" for name in broken)


def abort_during_load() -> str:
    rows = []
    for policy in POLICIES:
        for coming in _COMING.get(policy, (("load", "save"), ("save", "load"))):
            after = [*_after_each(policy, coming), "-"][:3]
            rows.append([f"`{policy}`", ", then ".join(coming), *after])
    return markdown_table(["policy", "what comes", "after the abort", "after the first", "after the second"], rows)


RELATION_TABLES = {
    "phases": phases,
    "life-of-a-request": life_of_a_request,
    "life-of-a-step": life_of_a_step,
    "actions": actions,
    "guards": guards,
    "state": state,
    "changes": changes,
    "policies": policies,
    "abort-during-load": abort_during_load,
}
