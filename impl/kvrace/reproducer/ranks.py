"""The generated side of several ranks: each has a part of every transfer, and vLLM's own aggregator puts their outputs together.

``"A@1"`` is the part of rank 1, and ``"A"`` are all parts.
"""

from __future__ import annotations

from kvrace.reproducer.order import Order
from kvrace.reproducer.text import enclosed

AGGREGATOR = "vllm.distributed.kv_transfer.kv_connector.utils:KVOutputAggregator"


def rank_constants(order: Order) -> list[str]:
    scope = order.scope
    if scope.ranks == 1:
        return []
    lines = [f"NUM_RANKS = {scope.ranks}"]
    if scope.ranks_reporting:
        lines.append(
            f"NUM_REPORTING = {scope.ranks_reporting}  # the ranks that take part in a transfer, the first ones"
        )
    return lines


def _reporting(order: Order) -> str:
    return "NUM_REPORTING" if order.scope.ranks_reporting else "NUM_RANKS"


def rank_methods(order: Order) -> list[list[str]]:
    """What the stub connector has in place of the methods for one rank."""
    counted = [
        "    def get_finished_count(self):",
        "        return NUM_REPORTING",
    ]
    return [
        *([counted] if order.scope.ranks_reporting else []),
        [
            "    def starts(self, kind, name, blocks):",
            '        """Each rank touches the blocks, and each owes a report."""',
            "        self.running[kind, name] = blocks",
            f"        ranks = range(1, {_reporting(order)} + 1)",
            '        self.touching[kind, name] = {f"{name}@{rank}" for rank in ranks}',
            "        self.owed[kind, name] = sorted(self.touching[kind, name])",
        ],
        [
            "    def over(self, kind, *names):",
            '        """These parts are over: those that are to be reported. "A@1" is the part of rank 1."""',
            "        reported = []",
            "        for name in names:",
            '            request = name.partition("@")[0]',
            "            owed = self.owed.get((kind, request), [])",
            "            parts = [part for part in owed if name in (part, request)]",
            "            self.too_early(kind, *parts)",
            "            self.ends(kind, *([name] if name != request else self.parts(kind, name)))",
            "            reported += parts",
            "        return reported",
        ],
        [
            "    def parts(self, kind, name):",
            "        return sorted(self.touching.get((kind, name), ()))",
        ],
        [
            "    def too_early(self, kind, *parts):",
            '        """These are reported, whether they are over or not."""',
            "        for part in parts:",
            '            owed = self.owed.get((kind, part.partition("@")[0]), [])',
            "            if part in owed:",
            "                owed.remove(part)",
            "        return parts",
        ],
        [
            "    def ends(self, kind, *parts):",
            '        """These touch nothing more."""',
            "        for part in parts:",
            '            name = part.partition("@")[0]',
            "            self.touching.get((kind, name), set()).discard(part)",
            "            if not self.touching.get((kind, name)):",
            "                self.running.pop((kind, name), None)",
        ],
    ]


def rank_output(order: Order, sampled: list[str], extra: list[str], ids: str) -> list[str]:
    """``model_output`` for several ranks. ``sampled`` are the lines with the sampled tokens, ``ids`` makes a set of ids."""
    made = 'part[0] for part in parts if part.endswith(f"@{rank}")'
    return [
        "def of_rank(rank, parts):",
        '    """The requests of which this rank reports its part."""',
        f"    return {f'{{{made}}}' if ids == 'set' else f'{ids}({made})'} or None",
        "",
        "",
        *enclosed(
            "def model_output(", ["scheduler", "step", "finished_recving=()", "finished_sending=()", *extra], "):"
        ),
        '    """The outputs of all ranks, put together as the executor does it. "A@1" is a report of rank 1."""',
        "    names = list(step.num_scheduled_tokens)",
        "    outputs = [",
        "        ModelRunnerOutput(",
        "            req_ids=names,",
        "            req_id_to_index={name: index for index, name in enumerate(names)},",
        *(f"    {line}" for line in sampled),
        "            kv_connector_output=KVConnectorOutput(",
        "                finished_recving=of_rank(rank, finished_recving),",
        "                finished_sending=of_rank(rank, finished_sending),",
        "            ),",
        "        )",
        "        for rank in range(1, NUM_RANKS + 1)",
        "    ]",
        "    return scheduler.connector.aggregator.aggregate(outputs)",
    ]
