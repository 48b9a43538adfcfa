"""``no-stuck``: does the engine come to rest, and not before everything is over?"""

from __future__ import annotations

from kvrace.reproducer.assertions.assertion import Assertion
from kvrace.reproducer.assertions.helpers import FINAL_NOTICES, arguments
from kvrace.reproducer.drafts import proposing
from kvrace.reproducer.life import resumed
from kvrace.reproducer.order import Order
from kvrace.reproducer.piece import Piece, piece


def idle_with_request(order: Order, name: str) -> Assertion:
    after = (
        "live = [name for name in PROMPTS if name not in notices]",
        "idle = not scheduler.has_requests()",
        'assert not (idle and live), f"the engine is idle and {live} are not over"',
    )
    return Assertion(after, (FINAL_NOTICES,), watched=frozenset({"notices"}))


def idle_with_transfer(order: Order, name: str) -> Assertion:
    told = "list(connector.running)"
    if order.unclaimed:
        told = '[t for t in connector.running if t[0] == "load" or t[1] not in UNCLAIMED]'
    if order.scope.ranks > 1:
        told = "[transfer for transfer, owed in connector.owed.items() if owed]"
    elif order.early:
        told = f"[t for t in {told} if t not in connector.told]"
    after = (
        f"waiting = {told}",
        "idle = not scheduler.has_requests()",
        'assert not (idle and waiting), f"the engine is idle while these run: {waiting}"',
    )
    return Assertion(after)


ROUNDS = 20


def never_at_rest(order: Order, depth: int) -> Assertion:
    """``depth`` steps are in flight before one is processed."""
    after = (
        "# From here on nobody interferes.",
        *resumed(order),
        f"rests = leave_alone(scheduler, connector{arguments(order.in_flight)})",
        "left = {name: request.status.name for name, request in scheduler.requests.items()}",
        f'assert rests, f"after {ROUNDS} rounds the engine is not at rest: {{left}}"',
    )
    return Assertion(after, (_leave_alone(order, depth),), reports_all=True, whole_order=False)


def _leave_alone(order: Order, depth: int) -> Piece:
    step = "scheduler,\n            step" if order.takes_scheduler else "step"
    told = "\n        ".join(["scheduler.update_from_output(step, output)", *proposing(order)])
    return Piece(
        f'''def leave_alone(scheduler, connector, *in_flight):
    """The engine steps, and each transfer is reported with the next output that can carry it.
    Whether the engine comes to rest."""
    steps = deque((step, {{"load": [], "save": []}}) for step in in_flight)
    for _ in range({ROUNDS}):
        while scheduler.has_requests() and len(steps) < {depth}:
            step = scheduler.schedule()
            running = {{"load": [], "save": []}}
            for kind, name in connector.running:
                running[kind].append(name)
            steps.append((step, running))
        if not steps:
            return True
        step, due = steps.popleft()
        output = model_output(
            {step},
            finished_recving=connector.over("load", *due["load"]),
            finished_sending=connector.over("save", *due["save"]),
        )
        {told}
    return False''',
        ("collections:deque",),
    )


_TIME_LIMIT = piece(
    '''
    @pytest.fixture(autouse=True)
    def time_limit():
        """A call that does not come back is a failure too."""

        def give_up(signum, frame):
            raise TimeoutError("a scheduler call did not come back")

        before = signal.signal(signal.SIGALRM, give_up)
        signal.alarm(60)
        yield
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    ''',
    "signal",
    "pytest",
)


def hang(order: Order, name: str) -> Assertion:
    after = ("# Every call comes back, and so does what the engine asks next.", "scheduler.has_requests()")
    return Assertion(after, (_TIME_LIMIT,))
