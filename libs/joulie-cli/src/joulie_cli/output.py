"""Writes lines and data to standard output, coloured on a terminal."""

import json
import os
import shutil
import sys
from argparse import Namespace
from collections.abc import Iterable
from typing import Any

import msgspec
import yaml
from rich.console import Console
from rich.text import Text

from joulie_cli.layout import Line, harmless, plain


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
    console = Console(highlight=False, soft_wrap=True)
    for each in lines:
        console.print(styled(each))


def styled(line: Line) -> Text:
    """Return a line for rich."""
    text = Text.assemble(*((cell.text, cell.style) for cell in line), no_wrap=True)
    text.rstrip()
    return text


def print_data(data: Any, options: Namespace) -> None:
    """Print data as the option `-o` asks: `json` or `yaml`."""
    if options.output == "json":
        text = _escaped(msgspec.json.format(msgspec.json.encode(data), indent=2).decode()) + "\n"
    else:
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
