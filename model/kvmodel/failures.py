"""Loads that fail: what may be reported of them, and which blocks then hold something else than the KV of their tokens.

Sources of the rules: ``KVConnectorBase_V1.get_block_ids_with_load_errors`` (an asynchronous load may report failed blocks in any
output up to and including the one that reports it as over, and is reported as over all the same; a synchronous load in the output
of its step), and ``get_transfer_results`` (``failed_recving`` comes with ``finished_recving``). A load fails once at most, and
blocks that failed are written no more.

A block is *spoiled* from its first token on that is not right. It is mended token by token, by a step that computes them, or by
another load; and what a step computes from spoiled KV is spoiled as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

from kvmodel.events import FailedPart, Failure, Report, Update
from kvmodel.port import LoadStarted
from kvmodel.scope import Scope
from kvmodel.world import Access, Stage, Transfer, World

Spoiled = dict[int, int]
"""Block -> how many tokens at its beginning are right."""


def possible_failures(world: World, scope: Scope) -> list[Failure]:
    """Every failure that the next output may report, if only that one is reported."""
    if not scope.load_failures:
        return []
    found = [
        Failure(transfer.request, part)
        for transfer in world.transfers
        if transfer.direction == "load" and transfer.wait == 0 and not (transfer.failed or transfer.told)
        for part in _parts(transfer.blocks, scope.failed_ids)
    ]
    if world.steps and not scope.failed_ids:
        for access in world.steps[0].accesses:
            found += [Failure(access.request, part) for part in _parts(loaded_blocks(access, scope))]
    return sorted(found)


def _parts(blocks: Sequence[int], by_id: bool = False) -> tuple[FailedPart, ...]:
    """The ways for a load to fail that differ."""
    if by_id:
        return ("id",)
    return ("all", "first", "last") if len(blocks) > 1 else ("all",) if blocks else ()


def sets_of_failures(possible: Iterable[Failure], reports: tuple[Report, ...]) -> Iterator[tuple[Failure, ...]]:
    """The failures that one output with these reports can carry: none or one for each request."""
    by_request: dict[str, list[tuple[Failure, ...]]] = {}
    for failure in possible:
        if fits(failure, reports):
            by_request.setdefault(failure.request, [()]).append((failure,))
    for chosen in product(*by_request.values()):
        yield tuple(failure for some in chosen for failure in some)


def fits(failure: Failure, reports: Iterable[Report]) -> bool:
    """A request is only named as failed in the output that reports its load as over."""
    return failure.part != "id" or Report("load", failure.request) in reports


def why_not(failures: tuple[Failure, ...], world: World, scope: Scope, reports: tuple[Report, ...]) -> str | None:
    """Why an output may not carry these failures; None when it may."""
    possible = possible_failures(world, scope)
    for failure in failures:
        if not scope.load_failures:
            return "no load fails in this scope"
        if failure not in possible:
            return f"the load of {failure.request} cannot fail so here"
        if not fits(failure, reports):
            return f"{failure.request} is named as failed before its load is reported as over"
    if len({failure.request for failure in failures}) < len(failures):
        return "a load fails once at most"
    return None


def never(failures: tuple[Failure, ...], scope: Scope, reports: tuple[Report, ...]) -> str | None:
    """Why no output of any scheduler in this scope can carry these failures; None where one may."""
    for failure in failures:
        index = scope.names.index(failure.request) if failure.request in scope.names else None
        if not scope.load_failures:
            return "no load fails in this scope"
        if index is None or not scope.loads(index):
            return f"{failure.request} loads nothing in this scope"
        if (failure.part == "id") != scope.failed_ids:
            return f"the scope reports failed loads by {'id' if scope.failed_ids else 'blocks'}"
        if not fits(failure, reports):
            return f"{failure.request} is named as failed before its load is reported as over"
    return None


def loading(access: Access, load: LoadStarted, scope: Scope) -> Access:
    """The access of a step that loads these blocks for the request before it computes."""
    first = load.table.index(load.blocks[0])
    return access._replace(written=access.blocks[first:], loaded=load.computed - first * scope.block_size)


def loaded_blocks(access: Access, scope: Scope) -> tuple[int, ...]:
    """The blocks that a step loads for a request."""
    if not access.loaded:
        return ()
    return access.blocks[(access.start - access.loaded) // scope.block_size : -(-access.start // scope.block_size)]


def failed_blocks(failure: Failure, blocks: tuple[int, ...]) -> tuple[int, ...]:
    match failure.part:
        case "first":
            return blocks[:1]
        case "last":
            return blocks[-1:]
    return blocks


def fail(transfer: Transfer, failure: Failure) -> Transfer:
    """The load once it was reported to have failed: it is still to be reported as over, and writes the failed blocks no more."""
    lost = failed_blocks(failure, transfer.blocks)
    return transfer._replace(failed=True, blocks=tuple(block for block in transfer.blocks if block not in lost))


def spoil(world: World, scope: Scope, failures: Iterable[Failure]) -> World:
    """The world in which these loads have failed: the blocks, and what the steps in flight compute from them."""
    spoiled = dict(world.spoiled)
    for failure in failures:
        for block in failed_blocks(failure, blocks_at_risk(world, scope, failure.request)):
            spoiled[block] = 0
    steps = []
    for number, step in enumerate(world.steps):
        # The loads of the first step have failed or not by now; a later one mends what it loads.
        loaded = {block for access in step.accesses for block in loaded_blocks(access, scope)} if number else ()
        for block in loaded:
            spoiled.pop(block, None)
        reached = {access.request: len(access.blocks) * scope.block_size for access in step.accesses}
        garbage = run(step.accesses, spoiled, scope, reached)
        steps.append(step._replace(garbage=tuple(sorted({*step.garbage, *garbage}))))
    return world._replace(steps=tuple(steps), spoiled=tuple(sorted(spoiled.items())))


def blocks_at_risk(world: World, scope: Scope, name: str) -> tuple[int, ...]:
    """The blocks of a request's load that may fail in the next output."""
    for transfer in world.transfers:
        if (transfer.request, transfer.direction) == (name, "load"):
            return transfer.blocks
    for access in world.steps[0].accesses if world.steps else ():
        if access.request == name:
            return loaded_blocks(access, scope)
    return ()


def run(accesses: Iterable[Access], spoiled: Spoiled, scope: Scope, reached: Mapping[str, int]) -> tuple[str, ...]:
    """Let a step compute: changes ``spoiled``, and names the requests for which it computes with spoiled KV.

    ``reached``: by request, how many tokens have KV after the step. Within a step a request may read what another computes.
    """
    left = list(accesses)
    while left:
        clean = [access for access in left if not reads(access, spoiled, scope)]
        for access in clean:
            _compute(access, spoiled, scope, reached[access.request])
            left.remove(access)
        if not clean:
            break
    for access in left:
        for place, block in _places(access, scope, access.start):
            spoiled[block] = min(spoiled.get(block, scope.block_size), max(0, access.start - place))
    return tuple(sorted(access.request for access in left))


def reads(access: Access, spoiled: Mapping[int, int], scope: Scope) -> tuple[int, ...]:
    """The blocks of which the step reads tokens that are not right."""
    return tuple(
        block
        for place, block in _places(access, scope, 0)
        if block in spoiled and place + spoiled[block] < min(access.start, place + scope.block_size)
    )


def _compute(access: Access, spoiled: Spoiled, scope: Scope, end: int) -> None:
    for place, block in _places(access, scope, access.start):
        good = spoiled.get(block)
        if good is not None and max(0, access.start - place) <= good:
            spoiled[block] = max(good, min(scope.block_size, end - place))
            if spoiled[block] == scope.block_size:
                del spoiled[block]


def _places(access: Access, scope: Scope, start: int) -> Iterator[tuple[int, int]]:
    """The blocks of an access from token number ``start`` on, each with the number of its first token."""
    for number in range(start // scope.block_size, len(access.blocks)):
        yield number * scope.block_size, access.blocks[number]


def garbage_in_output(world: World, scope: Scope, event: Update) -> tuple[str, ...]:
    """The requests of the oldest step for which it computed with KV that is not there, as the failures of its output say."""
    return (spoil(world, scope, event.failures) if event.failures else world).steps[0].garbage


def kv_before_spoiled(table: Sequence[int], tokens: int, world: World, scope: Scope) -> int:
    """How many of the first ``tokens`` tokens of a block table come before the first one that is not right."""
    spoiled = dict(world.spoiled)
    for number, block in enumerate(table):
        if block in spoiled:
            return min(tokens, number * scope.block_size + spoiled[block])
    return tokens


def without_forgotten(world: World, scope: Scope, cached: frozenset[int], free: tuple[int, ...]) -> World:
    """What is in the pool and not offered by the prefix cache is written before anybody reads it. A request that had such a block
    in its table, and waits for another one, has KV up to there at most."""
    forgotten = set(free) - cached
    requests = tuple(
        request._replace(computed=kv_before_spoiled(request.table, request.computed, world, scope))
        if request.stage == Stage.LIVE and forgotten.intersection(request.table)
        else request
        for request in world.requests
    )
    spoiled = tuple((block, good) for block, good in world.spoiled if block not in forgotten)
    return world._replace(requests=requests, spoiled=spoiled)
