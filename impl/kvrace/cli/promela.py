"""``kvrace promela``: a finite instance of the relation as a text for Spin, or Spin's figures beside kvrace's own."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from kvmodel.errors import KvraceError
from kvmodel.relation.model import Model
from kvmodel.relation.policies import policy_named
from kvmodel.relation.promela import promela
from kvmodel.relation.scoped import scoped
from kvmodel.scope import Scope
from kvrace.cli import options, proof_options
from kvrace.cli.contracts import contract_of
from kvrace.files import check_target, write_atomically
from kvrace.render.output import standard_output
from kvrace.spin import Comparison, Explored, compare
from kvrace.subjects import DEFAULT_POLICY

MOST_REQUESTS, MOST_BLOCKS = 4, 8
"""What is larger no explorer of all states gets through."""


def promela_command(
    requests: proof_options.RelationRequests,
    scheduler: proof_options.RelationScheduler = "sync",
    blocks: proof_options.RelationBlocks = None,
    policy: proof_options.RelationPolicy = DEFAULT_POLICY,
    contract: options.Contract = None,
    output: options.ExportTarget = None,
    run: proof_options.RunSpin = False,
) -> int:
    """Write kvrace's relation of requests, blocks, steps and transfers as Promela, for the model checker Spin.

    The relation is what every scheduler may do that is strict about who owns a
    block. It knows no sizes: a request may take any number of the blocks there
    are. The head of the text says how to run Spin on it; Spin, gcc and
    libc6-dev are needed for that, and for --run. spec/agreement.md says what
    agrees with what.

    \b
    Examples:
      kvrace promela --requests load_save --output seed.pml
      kvrace promela --requests load_save,local --policy wait_for_all --run

    \b
    Exit status:
      0  the text was written; with --run: Spin and kvrace agree
      1  with --run: they do not, which is a fault of kvrace
      2  usage error, or no Spin, with one line on standard error
      3  interrupted
    """
    if run and output is not None:
        raise KvraceError("--run and --output exclude each other: with --run no text is written")
    if output is not None:
        check_target(Path(output), "--output")
    kinds = tuple(kind.strip() for kind in requests.split(","))
    scope = Scope(kinds, scheduler)  # type: ignore[arg-type]  # a Scope checks what it is given
    size = len(kinds) if blocks is None else blocks
    if len(kinds) > MOST_REQUESTS:
        raise KvraceError(f"--requests: {len(kinds)} are too many to explore; use {MOST_REQUESTS} or fewer")
    if not 1 <= size <= MOST_BLOCKS:
        raise KvraceError(f"--blocks: {size} is outside 1 to {MOST_BLOCKS}")
    instance = scoped(Model(policy_named(policy), contract_of(contract)), scope, blocks=size)
    about = f"{','.join(kinds)}, {scheduler}, {size} block{'s' if size > 1 else ''}"
    about += f", policy {policy}, contract {contract_of(contract)}"
    if run:
        compared = compare(instance)
        standard_output(color=False).print(about, _table(compared), _verdict(compared))
        return 0 if compared.agree else 1
    text = promela(instance, about)
    if output is None:
        standard_output(color=False).write(text)
    else:
        write_atomically(Path(output), text)
    return 0


def _table(compared: Comparison) -> Table:
    table = Table("", "kvrace", "spin", box=None, pad_edge=False)
    table.columns[1].justify = table.columns[2].justify = "right"
    both = (compared.kvrace, compared.spin)
    table.add_row("states", *(f"{explored.states:,}" for explored in both))
    table.add_row("transitions", *(f"{explored.transitions:,}" for explored in both))
    for name in dict.fromkeys(name for explored in both for name in explored.broken):
        table.add_row(name, *(_when(explored, name) for explored in both))
    return table


def _when(explored: Explored, name: str) -> str:
    moves = explored.broken.get(name)
    return "holds" if moves is None else f"broken after {moves} move{'s' if moves != 1 else ''}"


def _verdict(compared: Comparison) -> str:
    if not compared.agree:
        return "They do not agree. This is a fault of kvrace; please report it."
    return "They agree." if compared.kvrace.broken else "They agree, and every property holds."
