"""The generated connector: it moves nothing, answers what the order needs, and remembers which blocks each transfer touches."""

from __future__ import annotations

from kvrace.reproducer.failures import method_lines, run_lines, start_lines
from kvrace.reproducer.life import again_lines
from kvrace.reproducer.order import Order
from kvrace.reproducer.piece import Piece
from kvrace.reproducer.ranks import rank_methods

_BASE = "vllm.distributed.kv_transfer.kv_connector.v1.base"


def connector_piece(order: Order, watched: frozenset[str], reports_all: bool) -> Piece:
    """``watched`` names what the assertion wants to know of calls of request_finished: ``finished``, ``handed_over``."""
    blocks = [
        _start(order, watched),
        _loads(order) if order.loads else _no_loads(),
        ["    def build_connector_meta(self, scheduler_output):", "        return KVConnectorMetadata()"],
        _request_finished(order, watched),
        *_life(order, reports_all),
        ["    # What follows belongs to the workers, and there are none."],
        ["    def start_load_kv(self, forward_context, **kwargs): ..."],
        ["    def wait_for_layer_load(self, layer_name): ..."],
        ["    def save_kv_layer(self, layer_name, kv_layer, attn_metadata, **kwargs): ..."],
        ["    def wait_for_save(self): ..."],
    ]
    code = "\n\n".join("\n".join(block) for block in blocks)
    names = ["KVConnectorBase_V1", "KVConnectorMetadata", *(["SupportsHMA"] if order.scope.window else [])]
    return Piece(code, tuple(f"{_BASE}:{name}" for name in names))


def _life(order: Order, reports_all: bool) -> list[list[str]]:
    """What ends and reports transfers."""
    if order.scope.ranks > 1:
        return rank_methods(order)
    return [
        *([_over(order)] if order.reports_due or order.early or reports_all else []),
        *([_too_early()] if order.early else []),
        *([_ends()] if order.scope.separate_ends and order.separate_ends else []),
        *([again_lines(order)] if order.reuses else []),
        *method_lines(order),
    ]


def _start(order: Order, watched: frozenset[str]) -> list[str]:
    return [
        f"class StubConnector(KVConnectorBase_V1{', SupportsHMA' if order.scope.window else ''}):",
        '    """Moves nothing, and remembers which blocks each transfer touches until it is over."""',
        "",
        "    def __init__(self, vllm_config, role, kv_cache_config=None):",
        "        super().__init__(vllm_config, role, kv_cache_config)",
        '        self.running = {}  # ("load", "A") -> block ids',
        *(["        self.loaded = set()"] if order.loads and not order.scope.loads_again else []),
        *start_lines(order),
        *(["        self.answers = {}  # to lookups, where they are not the usual ones"] if order.lookups else []),
        *(
            ["        self.told = set()  # reported, and still running"]
            if order.early and order.scope.ranks == 1
            else []
        ),
        *(["        self.touching = {}", "        self.owed = {}"] if order.scope.ranks > 1 else []),
        *(["        self.finished = []"] if "finished" in watched else []),
        *(["        self.handed_over = {}"] if "handed_over" in watched else []),
    ]


def _runs(order: Order, kind: str, blocks: str) -> str:
    """The statement that begins a transfer."""
    if order.scope.ranks > 1:
        return f'self.starts("{kind}", name, {blocks})'
    return f'self.running["{kind}", name] = {blocks}'


def _loads(order: Order) -> list[str]:
    again = order.scope.loads_again
    done = '("load", name) in self.running' if again else "name in self.loaded"
    changed = ["        if name in self.answers:", "            return self.answers[name]"] if order.lookups else []
    return [
        "    def get_num_new_matched_tokens(self, request, num_computed_tokens):",
        "        name = request.request_id",
        *changed,
        f"        if name not in LOADS or {done}:",
        "            return 0, False",
        *_offered(order),
        f"        return offered, offered > 0{' and name not in LOADS_IN_STEP' if order.loads_in_step else ''}",
        "",
        "    def update_state_after_alloc(self, request, blocks, num_external_tokens):",
        "        if num_external_tokens > 0:",
        "            name = request.request_id",
        f"            last = {_last_loaded(order)}",
        "            first = last - num_external_tokens // BLOCK_SIZE",
        *([] if again else ["            self.loaded.add(name)"]),
        *_load_starts(order),
    ]


def _load_starts(order: Order) -> list[str]:
    if not order.scope.window:
        return run_lines(order, _runs(order, "load", "blocks.get_block_ids()[0][first:last]"))
    return [
        "            tables = blocks.get_block_ids()",
        f"            {_runs(order, 'load', 'real_blocks(tables, slice(first, last))')}",
    ]


def _offered(order: Order) -> list[str]:
    if not order.scope.load_blocks:
        return ["        offered = max(0, len(PROMPTS[name]) * BLOCK_SIZE - num_computed_tokens)"]
    return [
        f"        num_blocks = {_last_loaded(order)}",
        "        offered = max(0, num_blocks * BLOCK_SIZE - num_computed_tokens)",
    ]


def _last_loaded(order: Order) -> str:
    """How many blocks of a prompt can come by load."""
    return "min(len(PROMPTS[name]), LOAD_BLOCKS)" if order.scope.load_blocks else "len(PROMPTS[name])"


def _no_loads() -> list[str]:
    return [
        "    def get_num_new_matched_tokens(self, request, num_computed_tokens):",
        "        return 0, False",
        "",
        "    def update_state_after_alloc(self, request, blocks, num_external_tokens): ...",
    ]


def _request_finished(order: Order, watched: frozenset[str]) -> list[str]:
    method = "request_finished_all_groups" if order.scope.window else "request_finished"
    lines = [f"    def {method}(self, request, block_ids):"]
    if order.saves or watched & {"finished", "handed_over"}:
        lines.append("        name = request.request_id")
    if "finished" in watched:
        lines.append("        self.finished.append(name)")
    if "handed_over" in watched:
        lines.append(f"        self.handed_over[name] = {'block_ids' if order.scope.window else 'list(block_ids)'}")
    if not order.saves:
        return [*lines, "        return False, None"]
    named, blocks = (
        ("any(block_ids)", "real_blocks(block_ids)") if order.scope.window else ("block_ids", "list(block_ids)")
    )
    lines += [f"        if name not in SAVES or not {named}:", "            return False, None"]
    if order.contract.single and order.loads:
        lines += [
            '        if ("load", name) in self.running:',
            "            return False, None  # never two transfers of one request at a time",
        ]
    claimed = "name not in UNCLAIMED" if order.unclaimed else "True"
    return [*lines, f"        {_runs(order, 'save', blocks)}", f"        return {claimed}, None"]


def _over(order: Order) -> list[str]:
    name = "name[-1]" if order.reuses else "name"
    untold = " if (kind, name) not in self.told" if order.early else ""
    ran = f"[{name} for name in ran{untold}]" if order.early or order.reuses else "ran"
    return [
        "    def over(self, kind, *names):",
        '        """These transfers are over: the names of those that ran, to be reported."""',
        "        ran = [name for name in names if (kind, name) in self.running]",
        "        for name in ran:",
        "            del self.running[kind, name]",
        f"        return {ran}",
    ]


def _too_early() -> list[str]:
    return [
        "    def too_early(self, kind, *names):",
        '        """These are reported although they run on, or have not begun."""',
        "        self.told.update((kind, name) for name in names if (kind, name) in self.running)",
        "        return names",
    ]


def _ends() -> list[str]:
    return [
        "    def ends(self, kind, name):",
        '        """The transfer is over and touches nothing more; its report comes later."""',
        "        if (kind, name) in self.running:",
        "            self.running[kind, name] = []",
    ]
