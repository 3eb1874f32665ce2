"""Reading of a recording's files.

A recording whose process was killed has no last line, and perhaps half of one; it is read up to the last minute that
was recorded.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_core.quantity import QuantityError, parse_quantity
from joulie_sim.engine.node_lists import NodeLine
from joulie_sim.recording.lines import (
    FORMAT,
    LOG,
    NODES,
    PODS,
    ContactLine,
    EndLine,
    GapLine,
    LogLine,
    NodeChangeLine,
    PodLine,
    StartLine,
)

T = TypeVar("T")

_LOG_LINES: Final = msgspec.json.Decoder(LogLine)
_POD_LINES: Final = msgspec.json.Decoder(PodLine)
_NODE_LINES: Final = msgspec.json.Decoder(NodeLine)


class RecordingError(Exception):
    """A directory is no recording; the message has the file, the line and the reason."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Content of a recording; times in seconds since its start."""

    start: StartLine
    #: Every node that was there at some time, with the most that it offered.
    nodes: tuple[Node, ...]
    #: The last line of every pod.
    pods: tuple[PodLine, ...]
    #: Until when it is complete.
    end_s: float
    gaps: tuple[GapLine, ...]
    node_changes: tuple[NodeChangeLine, ...]
    #: Whether it was ended, and not killed.
    ended: bool


def read_recording(directory: Path) -> Recording:
    """Read a recording.

    Raises:
        RecordingError: a file is missing, or a line is not valid.
    """
    log = list(_lines(directory / LOG, _LOG_LINES))
    start = log[0] if log else None
    if not isinstance(start, StartLine):
        raise RecordingError(f"{directory / LOG}, line 1: no start of a recording")
    if start.format != FORMAT:
        raise RecordingError(f"{directory / LOG}, line 1: format {start.format}, this version reads {FORMAT}")
    pods = {line.id: line for line in _lines(directory / PODS, _POD_LINES)}
    ended = isinstance(log[-1], EndLine)
    reached = [line.at_s for line in log if isinstance(line, ContactLine | EndLine)]
    # Killed within its first minute.
    end_s = max(reached) if reached else max((pod.seen_s for pod in pods.values()), default=0.0)
    return Recording(
        start=start,
        nodes=_nodes(directory / NODES),
        pods=tuple(pods.values()),
        end_s=end_s,
        gaps=tuple(line for line in log if isinstance(line, GapLine)),
        node_changes=tuple(line for line in log if isinstance(line, NodeChangeLine)),
        ended=ended,
    )


def _lines(path: Path, decoder: msgspec.json.Decoder[T]) -> Iterator[T]:
    """Yield the lines of a file; leave out the half line at the end of a file whose writer was killed."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    return
                try:
                    yield decoder.decode(line)
                except msgspec.DecodeError as error:
                    raise RecordingError(f"{path}, line {number}: {error}") from error
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}") from error


def _nodes(path: Path) -> tuple[Node, ...]:
    labels: dict[str, dict[str, str]] = {}
    offered: dict[str, dict[str, str]] = {}
    for number, line in enumerate(_lines(path, _NODE_LINES), start=1):
        labels[line.name] = line.labels
        most = offered.setdefault(line.name, {})
        for resource, quantity in line.allocatable.items():
            try:
                # Devices of a node that restarts are offered as 0 for a while.
                if resource not in most or parse_quantity(quantity) > parse_quantity(most[resource]):
                    most[resource] = quantity
            except QuantityError as error:
                raise RecordingError(f"{path}, line {number}: {resource}: {error}") from error
    return tuple(
        Node(NodeName(name), labels=labels[name], allocatable=most, capacity=most) for name, most in offered.items()
    )
