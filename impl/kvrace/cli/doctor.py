"""``kvrace doctor``: which known orders can hit this deployment of vLLM, and what to do about it."""

from __future__ import annotations

from kvmodel.errors import KvraceError, quoted
from kvmodel.scope import SCHEDULINGS
from kvrace.cli import deployment_options, options
from kvrace.cli.jsontarget import JsonTarget
from kvrace.cli.program import program
from kvrace.cli.reports import STANDARD_OUTPUT, show
from kvrace.doctor import diagnose
from kvrace.installed import installed_vllm, transfer_config_fields
from kvrace.render.doctor import diagnosis as rendered
from kvrace.render.doctor_json import diagnosis_json
from kvrace.render.output import standard_error, standard_output
from kvrace.transferconfig import read_config


def doctor_command(
    kv_transfer_config: deployment_options.KvTransferConfig = None,
    scheduler_cls: deployment_options.SchedulerClass = None,
    scheduler: deployment_options.EngineScheduling = None,
    json: options.Json = None,
    no_color: options.NoColor = False,
) -> int:
    """Say which known orders can hit this deployment of vLLM, and what to do.

    Reads which vLLM is installed, and imports nothing of it: no GPU is needed,
    and nothing is played. For the scheduler it has the results of 'kvrace check'
    on each release that was checked; for a connector of vLLM, what was read in
    its source, as long as the installed text is the one that was read. What is
    neither checked nor read is undetermined.

    Given --kv-offloading-size, vLLM puts in a connector by itself, also in the
    place of a configured one: OffloadingConnector, SimpleCPUOffloadConnector
    where VLLM_USE_SIMPLE_KV_OFFLOAD is set, and with --kv-offloading-backend
    lmcache LMCacheMPConnector. Ask for that one, with the role kv_both.

    \b
    Examples:
      kvrace doctor --kv-transfer-config \\
          '{"kv_connector": "NixlConnector", "kv_role": "kv_consumer"}'
      kvrace doctor --kv-transfer-config @transfer.json
      kvrace doctor --kv-transfer-config @transfer.json --scheduler sync
      kvrace doctor --kv-transfer-config @transfer.json \\
                    --scheduler-cls kvrace.vllm.fixed.FixedAsyncScheduler
      kvrace doctor --kv-transfer-config @transfer.json --json -

    \b
    Exit status:
      0  no known order can hit this deployment
      1  at least one known order can hit it
      2  usage or environment error, with one line on standard error
      3  undetermined: something was neither checked nor read
    """
    if scheduler is not None and scheduler not in SCHEDULINGS:
        raise KvraceError(f"unknown scheduler {quoted(scheduler)}: use sync or async")
    target = JsonTarget.of(json)
    config = options.only(kv_transfer_config, "--kv-transfer-config")
    scheduler_class = options.only(scheduler_cls, "--scheduler-cls")
    installed = installed_vllm()
    fields = transfer_config_fields(installed.folder)
    connector = None if config is None else read_config(config, fields)
    engine = next((scheduling for scheduling in SCHEDULINGS if scheduling == scheduler), None)
    found = diagnose(installed, connector, scheduler_class, engine)
    output = standard_error(not no_color) if json == STANDARD_OUTPUT else standard_output(not no_color)
    show(output, rendered(found, program()))
    target.write(diagnosis_json(found, program()))
    return found.exit_code
