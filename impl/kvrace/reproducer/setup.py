"""The generated helpers that make a scheduler on any machine, and the requests of the order."""

from __future__ import annotations

from kvmodel.scope import STEPS_IN_FLIGHT, Scope
from kvrace.reproducer.drafts import config_lines
from kvrace.reproducer.failures import constant_lines, policy_lines
from kvrace.reproducer.order import Order
from kvrace.reproducer.piece import Piece, piece
from kvrace.reproducer.ranks import AGGREGATOR, rank_constants
from kvrace.reproducer.text import enclosed, quoted, string_set
from kvrace.reproducer.window import group_lines, spec_lines

_STOCK = {
    "sync": "vllm.v1.core.sched.scheduler.Scheduler",
    "async": "vllm.v1.core.sched.async_scheduler.AsyncScheduler",
}

_MODEL = piece(
    '''
    MODEL = {
        "architectures": ["NoModel"],
        "model_type": "opt",
        "hidden_size": 16,
        "ffn_dim": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "vocab_size": 128,
        "max_position_embeddings": 2048,
        "word_embed_proj_dim": 16,
    }


    class NoModel(torch.nn.Module):
        """Never run: the configuration only looks at which methods a model has."""

        def __init__(self, *, vllm_config, prefix=""):
            super().__init__()

        def embed_input_ids(self, input_ids): ...

        def forward(self, input_ids, positions): ...

        def compute_logits(self, hidden_states): ...


    class AnyCpu(CpuPlatform):
        """Looks for no kernels, takes small blocks, and leaves async scheduling alone."""

        @classmethod
        def check_and_update_config(cls, vllm_config): ...


    @pytest.fixture(autouse=True)
    def any_machine_will_do(monkeypatch):
        monkeypatch.setattr(current_platform, "__class__", AnyCpu)
    ''',
    "pytest",
    "torch",
    "vllm.platforms:current_platform",
    "vllm.platforms.cpu:CpuPlatform",
)


def constants(order: Order, scheduler: str | None) -> list[str]:
    """The bound of the order. ``scheduler`` is ``module:Class``, None for vLLM's own."""
    scope = order.scope
    default = scheduler or _STOCK[scope.scheduling]
    words = [f"{quoted(name)}: {quoted(_word(scope, index))}" for name, index in order.requests.items()]
    lines = [
        *enclosed("SCHEDULER = os.environ.get(", [quoted("SCHEDULER"), quoted(default)], ")"),
        "",
        f"NUM_BLOCKS = {scope.blocks}  # and the null block",
        f"BLOCK_SIZE = {scope.block_size}",
        f"MAX_TOKENS = {scope.output_tokens}",
        *([f"NUM_DRAFTS = {scope.drafts}"] if scope.drafts else []),
        *([f"WINDOW = {scope.window}  # the tokens that every other layer attends to"] if scope.window else []),
        *rank_constants(order),
        "# One letter for each full block of a prompt; one token more comes after them.",
        *enclosed("PROMPTS = {", words, "}"),
    ]
    if scope.priorities:
        numbers = [f"{quoted(name)}: {scope.priorities[index]}" for name, index in order.requests.items()]
        lines += enclosed("PRIORITIES = {", numbers, "}")
    if order.loads:
        lines += ["# The connector offers to load the full blocks of these prompts."]
        lines += enclosed("LOADS = {", string_set(order.loads), "}")
        if scope.load_blocks:
            lines.append(f"LOAD_BLOCKS = {scope.load_blocks}  # no more of a prompt, from the first on")
        lines += constant_lines(order)
    if order.saves:
        lines += ["# The connector saves the blocks of these requests when they are over."]
        lines += enclosed("SAVES = {", string_set(order.saves), "}")
    if order.unclaimed:
        lines += ["# For these it returns False at request_finished, although the save runs."]
        lines += enclosed("UNCLAIMED = {", string_set(order.unclaimed), "}")
    lines.append(f"TOKEN{', STOP_TOKEN' if order.stops else ''} = 5{', 99' if order.stops else ''}")
    return lines


def _word(scope: Scope, index: int) -> str:
    """The prompt as a word. Requests with equal prefixes have equal ones in the generated file."""
    if scope.prompts:
        return scope.prompts[index]
    first = 0 if scope.prefix_sharing else index
    return chr(ord("a") + first) + "a" * (scope.prompt_blocks - 1)


def setup_pieces(order: Order) -> list[Piece]:
    return [_MODEL, _create_scheduler(order), _create_request(order)]


_AGGREGATED = [
    "    aggregator = KVOutputAggregator.from_connector(scheduler.connector, NUM_RANKS)",
    "    scheduler.connector.aggregator = aggregator",
    "    return scheduler",
]


def _create_scheduler(order: Order) -> Piece:
    scope = order.scope
    several = scope.ranks > 1
    cached = scope.prefix_sharing
    lines = [
        "def create_scheduler(folder):",
        *(["    init_none_hash(sha256)"] if cached else []),
        '    ModelRegistry.register_model("NoModel", NoModel)',
        '    (folder / "config.json").write_text(json.dumps(MODEL))',
        "    config = VllmConfig(",
        "        model_config=ModelConfig(",
        '            model=str(folder), skip_tokenizer_init=True, dtype="float32", seed=0',
        "        ),",
        '        device_config=DeviceConfig("cpu"),',
        f"        cache_config=CacheConfig(block_size=BLOCK_SIZE, enable_prefix_caching={cached}),",
        "        scheduler_config=SchedulerConfig(",
        f"            max_num_seqs={scope.max_requests or 26},",
        "            max_num_batched_tokens=2048,",
        *([f"            max_num_scheduled_tokens={scope.token_budget},"] if scope.token_budget else []),
        "            max_model_len=2048,",
        "            enable_chunked_prefill=True,",
        "            is_encoder_decoder=False,",
        f"            async_scheduling={scope.scheduling == 'async'},",
        *(['            policy="priority",'] if scope.priorities else []),
        "        ),",
        "        kv_transfer_config=KVTransferConfig(",
        '            kv_connector="StubConnector",',
        "            kv_connector_module_path=__name__,",
        '            kv_role="kv_both",',
        *policy_lines(scope),
        "        ),",
        "    )",
        *_pipeline_lines(scope),
        *config_lines(scope),
        "    config.cache_config.num_gpu_blocks = NUM_BLOCKS + 1",
        "    spec = FullAttentionSpec(",
        "        block_size=BLOCK_SIZE, num_kv_heads=1, head_size=1, dtype=torch.float32",
        "    )",
        *spec_lines(scope),
        "    scheduler_class = pkgutil.resolve_name(SCHEDULER)",
        f"    {'scheduler =' if several else 'return'} scheduler_class(",
        "        vllm_config=config,",
        "        kv_cache_config=KVCacheConfig(",
        "            num_blocks=NUM_BLOCKS + 1,",
        "            kv_cache_tensors=[],",
        *group_lines(scope),
        "        ),",
        "        structured_output_manager=StructuredOutputManager(config),",
        "        block_size=BLOCK_SIZE,",
        "    )",
        *(_AGGREGATED if several else []),
    ]
    imports = [
        "json",
        "os",
        "pkgutil",
        "vllm:ModelRegistry",
        *(
            f"vllm.config:{name}"
            for name in (
                "CacheConfig",
                "DeviceConfig",
                "KVTransferConfig",
                "ModelConfig",
                "SchedulerConfig",
                "VllmConfig",
            )
        ),
        *(f"vllm.v1.kv_cache_interface:{name}" for name in ("FullAttentionSpec", "KVCacheConfig", "KVCacheGroupSpec")),
        "vllm.v1.structured_output:StructuredOutputManager",
    ]
    if several:
        imports.append(AGGREGATOR)
    if scope.window:
        imports.append("vllm.v1.kv_cache_interface:SlidingWindowSpec")
    if scope.drafts:
        imports.append("vllm.config:SpeculativeConfig")
    if cached:
        imports += ["vllm.utils.hashing:sha256", "vllm.v1.core.kv_cache_utils:init_none_hash"]
    return Piece("\n".join(lines), tuple(imports))


def _pipeline_lines(scope: Scope) -> list[str]:
    """Set in a finished configuration, since vLLM refuses one with more stages than devices."""
    if scope.steps_in_flight == STEPS_IN_FLIGHT[scope.scheduling]:
        return []
    return [
        "    # A pipeline with as many stages as steps may be in flight.",
        f"    config.parallel_config.pipeline_parallel_size = {scope.steps}",
    ]


def _create_request(order: Order) -> Piece:
    scope = order.scope
    stops = ", stop_token_ids=[STOP_TOKEN]" if order.stops else ""
    lines = [
        "def create_request(name):",
        "    prompt = [ord(letter) for letter in PROMPTS[name] for _ in range(BLOCK_SIZE)]",
        "    return Request(",
        "        request_id=name,",
        "        prompt_token_ids=[*prompt, 0],",
        "        sampling_params=SamplingParams(",
        f"            max_tokens=MAX_TOKENS, ignore_eos=True{stops}",
        "        ),",
        "        pooling_params=None,",
        "        arrival_time=float(ord(name)),",
        *(["        priority=PRIORITIES[name],"] if scope.priorities else []),
        *(["        block_hasher=get_request_block_hasher(BLOCK_SIZE, sha256),"] if scope.prefix_sharing else []),
        "    )",
    ]
    if not order.stops:
        lines[5:8] = ["        sampling_params=SamplingParams(max_tokens=MAX_TOKENS, ignore_eos=True),"]
    imports = ["vllm:SamplingParams", "vllm.v1.request:Request"]
    if scope.prefix_sharing:
        imports += ["vllm.utils.hashing:sha256", "vllm.v1.core.kv_cache_utils:get_request_block_hasher"]
    return Piece("\n".join(lines), tuple(imports))
