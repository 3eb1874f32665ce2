"""Progress of long steps on stderr: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

_PLAIN_INTERVAL_S = 15.0


class Reporter(Protocol):
    """A receiver of progress messages."""

    def note(self, text: str) -> None:
        """Print one line that stays on the screen."""

    def begin(self, step: str) -> None:
        """Begin a step whose amount of work is not known yet."""

    def advance(self, done: int, total: int | None, detail: str) -> None:
        """Report that `done` of `total` items of the current step are done, the last of them being `detail`."""

    def finish(self) -> None:
        """End the current step."""

    def abandon(self) -> None:
        """End the current step, which has no result."""


class SilentReporter:
    """A reporter without output."""

    def note(self, text: str) -> None:
        """Do nothing."""

    def begin(self, step: str) -> None:
        """Do nothing."""

    def advance(self, done: int, total: int | None, detail: str) -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Do nothing."""

    def abandon(self) -> None:
        """Do nothing."""


class LineReporter:
    """A reporter for logs and pipes: one line when a step begins, one when it ends, and one every 15 s in between."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._step = ""
        self._started_s = self._last_line_s = 0.0

    def note(self, text: str) -> None:
        """Print one line."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def begin(self, step: str) -> None:
        """Print the name of the step."""
        self._step = step
        self._started_s = self._last_line_s = time.monotonic()
        self.note(f"{step} ...")

    def advance(self, done: int, total: int | None, detail: str) -> None:
        """Print the progress of the step if the last line is at least 15 s old."""
        now_s = time.monotonic()
        if now_s - self._last_line_s >= _PLAIN_INTERVAL_S:
            self._last_line_s = now_s
            self.note(f"{self._step}: {_amount(done, total)} after {now_s - self._started_s:.0f} s ({detail})")

    def finish(self) -> None:
        """Print how long the step took."""
        self.note(f"{self._step}: done in {time.monotonic() - self._started_s:.0f} s")

    def abandon(self) -> None:
        """Print after how long the step was abandoned."""
        self.note(f"{self._step}: abandoned after {time.monotonic() - self._started_s:.0f} s")


class BarReporter:
    """A reporter for terminals: one bar per step."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None

    def note(self, text: str) -> None:
        """Print one line above the bars."""
        self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def begin(self, step: str) -> None:
        """Add a bar."""
        self._task = self._progress.add_task(step, total=None, detail="", amount="")

    def advance(self, done: int, total: int | None, detail: str) -> None:
        """Move the bar."""
        if self._task is not None:
            self._progress.update(
                self._task, completed=done, total=total, amount=_amount(done, total), detail=detail[:60]
            )

    def finish(self) -> None:
        """Fill the bar and stop its clock."""
        if self._task is not None:
            self._progress.update(self._task, completed=1, total=1, detail="")
            self._progress.stop_task(self._task)

    def abandon(self) -> None:
        """Stop the clock of the bar."""
        if self._task is not None:
            self._progress.update(self._task, detail="abandoned")
            self._progress.stop_task(self._task)


@contextmanager
def terminal_reporter() -> Iterator[Reporter]:
    """Yield a reporter that writes to stderr: bars if it is a terminal, lines otherwise."""
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield LineReporter(console)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[amount]}", markup=False),
        TimeElapsedColumn(),
        TextColumn("{task.fields[detail]}", markup=False, style="dim"),
    )
    with Progress(*columns, console=console) as progress:
        yield BarReporter(progress)


def _amount(done: int, total: int | None) -> str:
    return f"{done}" if total is None else f"{done}/{total}"
