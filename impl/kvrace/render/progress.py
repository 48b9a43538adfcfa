"""Live progress of a long run: one line on stderr, rewritten in place, and only where somebody can see it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.cells import set_cell_size

from kvmodel.scope import Scope
from kvrace.matrix import MatrixProgress
from kvrace.render.output import Output
from kvrace.result import Progress

_CLEAR_LINE = "\r\x1b[2K"


class ProgressLine:
    """Writes nothing at all unless the stream is a terminal that can rewrite a line."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._live = output.stream.isatty() and os.environ.get("TERM") != "dumb"
        self._shown = False
        self._case = 0
        self._before = self._states = 0

    def importing(self, running: bool) -> None:
        """vLLM takes seconds to import, and the user should know what is going on."""
        if running:
            self._show("importing vLLM …")
        else:
            self.clear()

    def doing(self, what: str) -> None:
        """Something that takes a while, in words."""
        self._show(what)

    def exploring(self, progress: Progress) -> None:
        """Show how far the run is. ``rate`` is the mean over the whole run."""
        if progress.case != self._case:
            self._case = progress.case
            self._before += self._states
        self._states = progress.states
        rate = (self._before + self._states) / progress.seconds if progress.seconds > 0 else 0
        self._show(
            f"case {progress.case + 1}/{progress.cases}  {progress.states:,} states  {progress.transitions:,} transitions  "
            f"frontier {progress.frontier:,}  {rate:,.0f} states/s  {progress.seconds:,.0f} s  "
            f"{','.join(progress.scope.requests)} {progress.scope.scheduling}"
        )

    def touring(self, scope: Scope, done: int, tours: int) -> None:
        """Show how many tours of a case are played before they are written."""
        self.playing(f"{','.join(scope.requests)} {scope.scheduling}", done, tours)

    def playing(self, name: str, done: int, tours: int) -> None:
        """Show how far a suite is."""
        if done & 15 == 0:
            self._show(f"{name}  tour {done + 1:,}/{tours:,}")

    def filling(self, progress: MatrixProgress) -> None:
        """Show how far a matrix is."""
        self._show(
            f"{progress.done}/{progress.planned}  {progress.states:,} states  {progress.seconds:,.0f} s  {progress.at_work}"
        )

    def clear(self) -> None:
        """Leave no trace of the line."""
        if self._shown:
            self._output.write(_CLEAR_LINE)
            self._shown = False

    def _show(self, text: str) -> None:
        if self._live:
            self._output.write(_CLEAR_LINE + set_cell_size(text, min(len(text), self._output.width - 1)))
            self._shown = True


@contextmanager
def progress_line(color: bool) -> Iterator[ProgressLine]:
    """A progress line on stderr that is gone afterwards, whatever happens."""
    line = ProgressLine(Output(sys.stderr, color=color))
    try:
        yield line
    finally:
        line.clear()
