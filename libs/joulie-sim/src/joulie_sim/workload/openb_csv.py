"""Reading of the openb-2023 lists of nodes and pods from their CSV files.

An error names the line, the field and the value that are wrong. The trace is of a GPU cluster of 1,523 nodes, published
by Alibaba; the files are not part of this project.
"""

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")

NODE_FILE: Final = "openb_node_list_all_node.csv"
POD_FILE: Final = "openb_pod_list_default.csv"


class TraceError(Exception):
    """A file is not a valid list; the message has the position and the reason."""


class Qos(StrEnum):
    """Quality-of-service class of a pod of the trace."""

    LATENCY_SENSITIVE = "LS"
    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BE"


@dataclass(frozen=True, slots=True)
class TraceNode:
    """A line of the node list. `gpu_model` is empty where there are no GPUs; `cpu_milli` counts hardware threads."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_model: str


@dataclass(frozen=True, slots=True)
class TracePod:
    """A line of the pod list. Times are seconds since the start of the trace."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    #: Share of one GPU in thousandths; 1000 for pods with whole GPUs, 0 for pods without.
    gpu_milli: int
    qos: Qos
    created_s: int
    #: None for a pod that was never scheduled.
    scheduled_s: int | None
    deleted_s: int


class _Row:
    """One line of a CSV file, with errors that name the position."""

    def __init__(self, path: Path, line: int, fields: Mapping[str, str | None]) -> None:
        self._path = path
        self._line = line
        self._fields = fields

    def text(self, field: str) -> str:
        value = self._fields.get(field)
        if value is None:
            raise TraceError(f"{self._path}, line {self._line}: the line ends before field {field!r}")
        return value

    def whole(self, field: str) -> int:
        value = self.text(field)
        # ASCII only: isdecimal alone would accept digits of other scripts.
        if not (value.isascii() and value.isdecimal()):
            raise self.error(field, "is not a whole number of at least 0")
        return int(value)

    def error(self, field: str, why: str) -> TraceError:
        return TraceError(f"{self._path}, line {self._line}: field {field!r} = {self._fields.get(field)!r} {why}")


def read_nodes(path: Path) -> tuple[TraceNode, ...]:
    """Read the node list.

    Raises:
        TraceError: the file is not a node list.
    """
    return _read(path, ("sn", "cpu_milli", "memory_mib", "gpu", "model"), _node)


def read_pods(path: Path) -> tuple[TracePod, ...]:
    """Read the pod list.

    Raises:
        TraceError: the file is not a pod list.
    """
    columns = (
        *("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "qos"),
        *("creation_time", "deletion_time", "scheduled_time"),
    )
    return _read(path, columns, _pod)


def _read(path: Path, columns: tuple[str, ...], convert: Callable[[_Row], T]) -> tuple[T, ...]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = [column for column in columns if column not in (reader.fieldnames or ())]
            if missing:
                raise TraceError(f"{path}, line 1: no column {', '.join(missing)}; columns: {reader.fieldnames}")
            rows = tuple(convert(_Row(path, reader.line_num, fields)) for fields in reader)
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"{path}: not a CSV file: {error}") from error
    if not rows:
        raise TraceError(f"{path}: the list is empty")
    return rows


def _node(row: _Row) -> TraceNode:
    node = TraceNode(
        name=row.text("sn"),
        cpu_milli=row.whole("cpu_milli"),
        memory_mib=row.whole("memory_mib"),
        gpus=row.whole("gpu"),
        gpu_model=row.text("model"),
    )
    if node.cpu_milli == 0:
        raise row.error("cpu_milli", "must be positive")
    if (node.gpus > 0) != bool(node.gpu_model):
        raise row.error("model", f"is inconsistent with {node.gpus} GPUs")
    return node


def _pod(row: _Row) -> TracePod:
    try:
        qos = Qos(row.text("qos"))
    except ValueError as error:
        raise row.error("qos", f"is not one of {', '.join(Qos)}") from error
    pod = TracePod(
        name=row.text("name"),
        cpu_milli=row.whole("cpu_milli"),
        memory_mib=row.whole("memory_mib"),
        gpus=row.whole("num_gpu"),
        gpu_milli=row.whole("gpu_milli"),
        qos=qos,
        created_s=row.whole("creation_time"),
        scheduled_s=row.whole("scheduled_time") if row.text("scheduled_time") else None,
        deleted_s=row.whole("deletion_time"),
    )
    if pod.deleted_s < max(pod.created_s, pod.scheduled_s or 0):
        raise row.error("deletion_time", "is before the pod's start")
    return pod
