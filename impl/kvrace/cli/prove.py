"""``kvrace prove``: proofs for any number of requests, blocks and steps, and what refutes a policy that has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kvmodel.contract import Contract
from kvmodel.errors import KvraceError, quoted
from kvmodel.relation.model import Model
from kvmodel.relation.policies import policy_named
from kvmodel.relation.safety import ASSUMPTIONS
from kvrace.cli import options, proof_options
from kvrace.cli.contracts import contract_of
from kvrace.cli.interrupt import ending_at_once, interruptible
from kvrace.cli.program import program
from kvrace.cli.reports import STANDARD_OUTPUT
from kvrace.files import TraceFolder, check_target, encodable, write_atomically
from kvrace.render.output import Output, standard_error, standard_output
from kvrace.render.progress import ProgressLine, progress_line
from kvrace.render.terminal import ReplayCommand
from kvrace.result import Violation
from kvrace.subjects import BUILT_IN, DEFAULT_POLICY, SubjectChoice, choose_subject
from kvrace.trace import write_trace

if TYPE_CHECKING:  # z3 takes a second to import, and other commands do not need it
    from kvmodel.proof.solve import Discharged
    from kvrace.prove import Statement

MAIN_POLICY = "wait_for_all"
_NO_ASSUMPTION = "none"
BESIDE = ("assert", "skip")
"""What vLLM does, and what is proposed most often: without ``--policy`` they are shown in short beside the main one."""


def prove_command(
    policy: proof_options.ProvedPolicy = None,
    contract: options.Contract = None,
    assume: proof_options.Assume = None,
    subject: proof_options.PlayedOn = None,
    brief: proof_options.Brief = False,
    time_limit: proof_options.ObligationTimeLimit = 10.0,
    json: proof_options.ProofJson = None,
    trace_dir: options.TraceFolder = "kvrace-traces",
    no_color: options.NoColor = False,
    list_names: proof_options.ListTheorems = False,
) -> int:
    """Prove that a policy for completions keeps the scheduler safe, for any number of requests, blocks and steps in flight.

    What is proved is a relation (spec/proofs.md): what any scheduler with that
    policy may do, and what the connector may do under the contract. An invariant
    holds at the start, every action keeps it, and it implies every safety
    property; z3 checks each of these obligations. Where one fails, kvrace shows
    the smallest state, looks for the shortest order to it, and plays that order
    on a real scheduler.

    Without --policy: the proof for wait_for_all, and in short why assert and skip
    have none.

    \b
    Examples:
      kvrace prove                    the main statement, obligation by obligation
      kvrace prove --policy assert    what vLLM does: refuted, and played on it
      kvrace prove --contract duplicate    with what has to be assumed
      kvrace prove --contract duplicate --assume none
      kvrace prove --list             every statement, with what it assumes

    \b
    Exit status:
      0  every obligation is discharged
      1  an obligation is refuted
      2  usage or environment error, with one line on standard error
      3  interrupted before the verdict, or z3 gave an obligation up
    """
    output = standard_error(not no_color) if json == STANDARD_OUTPUT else standard_output(not no_color)
    from kvrace.render import proof as shown

    if list_names:
        output.print(shown.theorems())
        return 0
    chosen = contract_of(contract)
    if not 0 < time_limit < float("inf"):
        raise KvraceError(f"--time-limit {time_limit:g}: must be a number of seconds, more than 0")
    if subject not in (None, "vllm", "reference"):
        raise KvraceError(f"--subject {quoted(subject)}: orders are played on vllm or on reference")
    if json not in (None, STANDARD_OUTPUT):
        check_target(Path(json), "--json")
    run = _Run(chosen, assume, subject, time_limit, output, TraceFolder(Path(trace_dir)), not no_color)
    return run.all(policy, brief, json)


def _assumed(assume: str | None, policy: str, contract: Contract) -> frozenset[str]:
    """What is assumed: what was asked for, else what the listed statement assumes. Raises KvraceError for an unknown name."""
    from kvmodel.proof.theorems import theorem_for

    if assume is None:
        theorem = theorem_for(policy, contract)
        return theorem.assumed if theorem else frozenset()
    names = frozenset(name.strip() for name in assume.split(","))
    if _NO_ASSUMPTION in names and len(names) > 1:
        raise KvraceError(f"--assume {assume}: {_NO_ASSUMPTION} stands alone")
    names -= {_NO_ASSUMPTION}
    for name in sorted(names - ASSUMPTIONS.keys()):
        raise KvraceError(
            f"unknown assumption {quoted(name)}: use {_NO_ASSUMPTION} or some of {', '.join(ASSUMPTIONS)}"
        )
    return names


def _nothing() -> None:
    """Only asks whether the user wants the run to end."""


def _call(what: Callable[[], None]) -> None:
    what()


@dataclass
class _Run:
    """One command: its statements one after the other, told as they are found."""

    contract: Contract
    assume: str | None
    subject: str | None
    time_limit: float
    output: Output
    folder: TraceFolder
    color: bool

    def all(self, policy: str | None, brief: bool, json: str | None) -> int:
        from kvrace.render import proof as shown
        from kvrace.render.proof_json import proof_json

        policies = [policy_named(policy or MAIN_POLICY).name]
        others = list(BESIDE) if policy is None else []
        models = {name: Model(policy_named(name), self.contract, _assumed(self.assume, name, self.contract))
                  for name in (*policies, *others)}  # fmt: skip
        try:
            with progress_line(self.color) as line:
                statement, traces = self._whole(models[policies[0]], brief, line)
                beside: list[Statement] = []
                for name in others:
                    if not any(told.interrupted for told in (statement, *beside)):  # else the user has had enough
                        beside.append(self._statement(models[name], None, line, lambda _: None))
                line.clear()
            for other in beside:
                self.output.print(shown.beside(other, program()))
            if json is not None:
                text = proof_json([statement, *beside], traces, self._replay(statement))
                if json == STANDARD_OUTPUT:
                    standard_output(color=False).write(encodable(text))
                else:
                    write_atomically(Path(json), text)
            return statement.exit_code
        finally:
            self.folder.leave_no_empty_folder()

    def _whole(self, model: Model, brief: bool, line: ProgressLine) -> tuple[Statement, dict[Violation, Path]]:
        """One statement with everything there is to say."""
        from kvmodel.proof.theorems import theorem_for
        from kvrace.render import proof as shown

        self.output.print(shown.header(model, theorem_for(model.policy.name, self.contract)))

        def listen(result: Discharged) -> None:
            line.clear()
            self.output.print(shown.obligation_line(result, self.output.width))

        statement = self._statement(model, self._player(model, line), line, (lambda _: None) if brief else listen)
        line.clear()
        traces = {}
        for order in statement.orders:
            if order.violation is not None and statement.subject is not None:
                spec, played = statement.subject.spec, statement.subject.policy
                path = write_trace(order.violation, spec, played, self.folder.path)
                traces[order.violation] = self.folder.shown / path.name
        if brief:
            self.output.print(shown.by_action(statement.proof))
        self.output.print(shown.report(statement, traces, self._replay(statement), self.output.width))
        return statement, traces

    def _statement(
        self,
        model: Model,
        choose: Callable[[], SubjectChoice] | None,
        line: ProgressLine,
        listen: Callable[[Discharged], None],
    ) -> Statement:
        from kvmodel.proof.theorems import theorem_for
        from kvrace.prove import state

        theorem = theorem_for(model.policy.name, model.contract)
        with interruptible(_call) as tell:
            return state(
                model,
                theorem,
                choose,
                time_limit=self.time_limit,
                listen=lambda result: tell(partial(listen, result)),
                doing=lambda what: tell(partial(line.doing, what)),
                alive=lambda: tell(_nothing),
            )

    def _player(self, model: Model, line: ProgressLine) -> Callable[[], SubjectChoice]:
        """The scheduler that has the policy: vLLM or a subclass of it where it can be imported, else the reference scheduler."""
        policy = model.policy.name

        def choose() -> SubjectChoice:
            from kvrace.vllm.environment import VllmUnavailable

            if self.subject == "reference":
                return choose_subject("reference", policy)
            try:
                with ending_at_once():
                    return choose_subject("vllm" if policy == DEFAULT_POLICY else policy, None, line.importing)
            except VllmUnavailable:
                if self.subject == "vllm":
                    raise
                return choose_subject("reference", policy)

        return choose

    def _replay(self, statement: Statement) -> ReplayCommand:
        spec = statement.subject.spec if statement.subject else "reference"
        return ReplayCommand(program(), "" if spec in BUILT_IN else f"--subject {spec}")
