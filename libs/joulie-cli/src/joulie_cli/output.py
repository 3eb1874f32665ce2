"""Output of a command, on a terminal with colours, and its exit code.

rich and yaml are imported where they are needed: completion imports this module at every key.
"""

import json
import os
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import msgspec

from joulie_cli.layout import Line, harmless, plain

if TYPE_CHECKING:
    from rich.text import Text


class ExitCode(IntEnum):
    """Exit codes of `kubectl joulie`; part of its interface."""

    OK = 0
    #: `doctor` found something to act on; `wake`: a node does not wake, or not in time.
    FINDINGS = 1
    #: The command line is wrong.
    USAGE = 2
    #: The API server, the extender or Prometheus cannot be reached, forbids a request, or does not have what is asked
    #: for.
    UNREADABLE = 3


class CliError(Exception):
    """Ends the command: what is wrong, and the way out."""

    def __init__(self, problem: str, way_out: str = "", code: ExitCode = ExitCode.UNREADABLE) -> None:
        super().__init__(problem)
        self.problem = problem
        self.way_out = way_out
        self.code = code


def show(options: Namespace, data: Any, lines: Callable[[int | None], Iterable[Line]]) -> None:
    """Print data where the option `-o` asks for them, else the lines for the width of the terminal."""
    if as_data(options):
        print_data(data, options)
    else:
        print_lines(lines(terminal_width()))


def terminal_width() -> int | None:
    """Return the columns of the terminal; None where the output goes elsewhere and is not cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def coloured() -> bool:
    """Return whether to colour: on a terminal that can, unless NO_COLOR is set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def print_lines(lines: Iterable[Line]) -> None:
    """Print lines of text."""
    if not coloured():
        _write(plain(lines))
        return
    from rich.console import Console  # noqa: PLC0415

    console = Console(highlight=False, soft_wrap=True)
    for each in lines:
        console.print(styled(each))


def styled(line: Line) -> "Text":
    """Return a line for rich."""
    from rich.text import Text  # noqa: PLC0415

    text = Text.assemble(*((cell.text, cell.style) for cell in line), no_wrap=True)
    text.rstrip()
    return text


def print_data(data: Any, options: Namespace) -> None:
    """Print data as the option `-o` asks: `json` or `yaml`."""
    if options.output == "json":
        text = _escaped(msgspec.json.format(msgspec.json.encode(data), indent=2).decode()) + "\n"
    else:
        import yaml  # noqa: PLC0415

        known = msgspec.to_builtins(data)
        text = yaml.safe_dump(known, sort_keys=False, allow_unicode=True)
        if not _is_harmless(text):
            # Control characters are escaped in any case, those that turn the direction of text only so.
            text = yaml.safe_dump(known, sort_keys=False)
    _write(text)


def print_item(data: Any, options: Namespace) -> None:
    """Print one item of a stream: a line of JSON, or a YAML document, so that a reader need not wait for the end."""
    if options.output == "json":
        _write(_escaped(msgspec.json.encode(data).decode()) + "\n")
    else:
        _write("---\n")
        print_data(data, options)


def as_data(options: Namespace) -> bool:
    """Return whether the output is data for programs."""
    return options.output in {"json", "yaml"}


def print_error(text: str) -> None:
    """Print an error of one or more lines to standard error."""
    for each in text.split("\n"):
        sys.stderr.write(harmless(each) + "\n")


def _is_harmless(text: str) -> bool:
    return text.replace("\n", "").isprintable()


def _escaped(text: str) -> str:
    """Return JSON with the characters escaped that a terminal would carry out; they can be in its strings only."""
    if _is_harmless(text):
        return text
    return "".join(each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
