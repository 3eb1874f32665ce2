"""Tell a person how far a long build is: a bar on a terminal, a plain line now and then elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

_PLAIN_INTERVAL_S = 15.0


class Reporter(Protocol):
    """Where a build reports to."""

    def note(self, text: str) -> None:
        """Say one thing that stays."""

    def begin(self, step: str) -> None:
        """A step begins; how much there is to do is not known yet."""

    def advance(self, done: int, total: int | None, detail: str) -> None:
        """The current step has done `done` of `total` things, the last of them `detail`."""

    def finish(self) -> None:
        """The current step is done."""


class SilentReporter:
    """Says nothing."""

    def note(self, text: str) -> None:
        """See `Reporter`."""

    def begin(self, step: str) -> None:
        """See `Reporter`."""

    def advance(self, done: int, total: int | None, detail: str) -> None:
        """See `Reporter`."""

    def finish(self) -> None:
        """See `Reporter`."""


class LineReporter:
    """One line when a step begins and ends and every 15 s between, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._step = ""
        self._begun = self._spoken = 0.0

    def note(self, text: str) -> None:
        """See `Reporter`."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def begin(self, step: str) -> None:
        """See `Reporter`."""
        self._step = step
        self._begun = self._spoken = time.monotonic()
        self.note(f"{step} ...")

    def advance(self, done: int, total: int | None, detail: str) -> None:
        """See `Reporter`."""
        now = time.monotonic()
        if now - self._spoken >= _PLAIN_INTERVAL_S:
            self._spoken = now
            self.note(f"{self._step}: {_amount(done, total)} after {now - self._begun:.0f} s ({detail})")

    def finish(self) -> None:
        """See `Reporter`."""
        self.note(f"{self._step}: done in {time.monotonic() - self._begun:.0f} s")


class BarReporter:
    """One bar per step."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None

    def note(self, text: str) -> None:
        """See `Reporter`."""
        self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def begin(self, step: str) -> None:
        """See `Reporter`."""
        self._task = self._progress.add_task(step, total=None, detail="", amount="")

    def advance(self, done: int, total: int | None, detail: str) -> None:
        """See `Reporter`."""
        if self._task is not None:
            self._progress.update(
                self._task, completed=done, total=total, amount=_amount(done, total), detail=detail[:60]
            )

    def finish(self) -> None:
        """See `Reporter`."""
        if self._task is not None:
            self._progress.update(self._task, completed=1, total=1, detail="")
            self._progress.stop_task(self._task)


@contextmanager
def terminal_reporter() -> Iterator[Reporter]:
    """A reporter on stderr: bars where it is a terminal, lines elsewhere."""
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
