"""Classes of nodes, as people write them in YAML, and the KWOK Node objects they stand for.

Pure: reading a file and making objects; `node_pool` creates them in a cluster. The labels are those by which Joulie
recognises hardware without an agent's report (Source: contracts, section 2).
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from joulie_core import labels as keys
from joulie_core.quantity import QuantityError, parse_quantity
from joulie_devcluster.control_plane.manifests import DATA
from joulie_devcluster.errors import NodeClassError

# Only nodes with this annotation are KWOK's: a real node beside them is left alone.
KWOK_ANNOTATION = "kwok.x-k8s.io/node"
KWOK_ANNOTATION_VALUE = "fake"

HOSTNAME_LABEL = "kubernetes.io/hostname"

_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
_NODE_NAME = r"^[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?$"


def _check_label_value(value: str) -> str:
    if _LABEL_VALUE.fullmatch(value) is None:
        raise ValueError(
            "must be a label value: at most 63 letters, digits, '-', '_', '.', a letter or digit at both ends"
            " (write AMD-EPYC-9654, not AMD EPYC 9654)"
        )
    return value


def _check_quantity(value: str) -> str:
    try:
        parse_quantity(value)
    except QuantityError as error:
        raise ValueError(f"must be a quantity like 512Gi: {error}") from error
    return value


LabelValue = Annotated[str, AfterValidator(_check_label_value)]
Quantity = Annotated[str, AfterValidator(_check_quantity)]
Count = Annotated[int, Field(ge=1, le=100_000)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class CpuClass(_Model):
    """The CPUs of a node: `cores` counts the physical ones of all sockets; it offers `cores * threads_per_core`."""

    model: LabelValue
    sockets: Count = 2
    cores: Count
    threads_per_core: Annotated[int, Field(ge=1, le=8)] = 2


class GpuClass(_Model):
    """The GPUs of a node, all alike."""

    model: LabelValue
    count: Count
    resource: Literal["nvidia.com/gpu", "amd.com/gpu"] = "nvidia.com/gpu"


class Taint(_Model):
    """A taint as Kubernetes has it."""

    key: str
    value: LabelValue = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class NodeClass(_Model):
    """Nodes that are alike.

    Attributes:
        name: prefix of the nodes' names: `name`-0, `name`-1, ...
        count: how many.
        cpu: CPUs.
        gpu: GPUs; None for a CPU-only node.
        memory: capacity, a quantity.
        pods: how many pods a node takes.
        kind: value of `joulie.io/hw.kind`; None leaves it out.
        racks: values of `joulie.io/rack`, handed out in turn.
        cooling_zones: values of `joulie.io/cooling-zone`, handed out in turn.
        managed: whether Joulie manages them.
        labels: further labels; they win over those made from the other fields.
        annotations: further annotations.
        taints: taints.
    """

    name: Annotated[str, Field(pattern=_NODE_NAME)]
    count: Count = 1
    cpu: CpuClass
    gpu: GpuClass | None = None
    memory: Quantity = "256Gi"
    pods: Count = 110
    kind: LabelValue | None = None
    racks: tuple[LabelValue, ...] = ()
    cooling_zones: tuple[LabelValue, ...] = ()
    managed: bool = True
    labels: dict[str, LabelValue] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    taints: tuple[Taint, ...] = ()

    def node_names(self) -> list[str]:
        """The names of its nodes."""
        return [f"{self.name}-{index}" for index in range(self.count)]


class NodeFile(_Model):
    """A file of node classes."""

    classes: Annotated[tuple[NodeClass, ...], Field(min_length=1)]


def parse_node_classes(text: str, *, source: str) -> tuple[NodeClass, ...]:
    """Read node classes from YAML: a mapping with a list `classes`.

    Raises:
        NodeClassError: names every field that is wrong, its value and why; `source` says where the text came from.
    """
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise NodeClassError(f"{source} is not YAML: {error}") from error
    try:
        classes = NodeFile.model_validate(content).classes
    except ValidationError as error:
        lines = [f"  {_field(problem['loc'])} = {problem['input']!r}: {problem['msg']}" for problem in error.errors()]
        raise NodeClassError("\n".join([f"{source} is not a file of node classes:", *lines])) from error
    names = [name for node_class in classes for name in node_class.node_names()]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) != len(names) else []
    if twice:
        raise NodeClassError(f"{source}: several classes make the nodes {', '.join(twice[:5])}; give them other names")
    return classes


def read_node_classes(path: Path) -> tuple[NodeClass, ...]:
    """Read a file of node classes; NodeClassError also where it cannot be read."""
    try:
        text = path.read_text()
    except OSError as error:
        raise NodeClassError(f"{path} cannot be read: {error.strerror}") from error
    return parse_node_classes(text, source=str(path))


def default_node_classes() -> tuple[NodeClass, ...]:
    """A mixed cluster of 40 nodes: several CPU and GPU models."""
    text = (DATA / "default-nodes.yaml").read_text()
    return parse_node_classes(text, source="default-nodes.yaml")


def scale(classes: Sequence[NodeClass], total: int) -> tuple[NodeClass, ...]:
    """The same mix with `total` nodes in all, by largest remainder; a class that gets none is left out."""
    whole = sum(node_class.count for node_class in classes)
    shares = [total * node_class.count / whole for node_class in classes]
    counts = [int(share) for share in shares]
    by_remainder = sorted(range(len(classes)), key=lambda index: (counts[index] - shares[index], index))
    for index in by_remainder[: total - sum(counts)]:
        counts[index] += 1
    pairs = zip(classes, counts, strict=True)
    return tuple(node_class.model_copy(update={"count": count}) for node_class, count in pairs if count > 0)


def node_manifests(classes: Sequence[NodeClass]) -> list[dict[str, Any]]:
    """The Node objects of all classes, status included (KWOK keeps the capacity it finds)."""
    return [
        _node(node_class, name, index) for node_class in classes for index, name in enumerate(node_class.node_names())
    ]


def _node(node_class: NodeClass, name: str, index: int) -> dict[str, Any]:
    capacity = {
        "cpu": str(node_class.cpu.cores * node_class.cpu.threads_per_core),
        "memory": node_class.memory,
        "pods": str(node_class.pods),
    }
    if node_class.gpu is not None:
        capacity[node_class.gpu.resource] = str(node_class.gpu.count)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": _labels(node_class, name, index),
            "annotations": {KWOK_ANNOTATION: KWOK_ANNOTATION_VALUE, **node_class.annotations},
        },
        "spec": {"taints": [taint.model_dump() for taint in node_class.taints]} if node_class.taints else {},
        "status": {"capacity": capacity, "allocatable": dict(capacity)},
    }


def _labels(node_class: NodeClass, name: str, index: int) -> dict[str, str]:
    cpu, gpu = node_class.cpu, node_class.gpu
    found = {
        HOSTNAME_LABEL: name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        keys.MANAGED: "true" if node_class.managed else None,
        keys.HW_CPU_MODEL: cpu.model,
        keys.HW_CPU_SOCKETS: str(cpu.sockets),
        keys.HW_CPU_CORES: str(cpu.cores),
        keys.HW_GPU_MODEL: gpu.model if gpu else None,
        keys.HW_GPU_COUNT: str(gpu.count) if gpu else None,
        keys.HW_KIND: node_class.kind,
        keys.RACK: _in_turn(node_class.racks, index),
        keys.COOLING_ZONE: _in_turn(node_class.cooling_zones, index),
    }
    return {key: value for key, value in found.items() if value is not None} | node_class.labels


def _in_turn(values: Sequence[str], index: int) -> str | None:
    return values[index % len(values)] if values else None


def _field(location: tuple[int | str, ...]) -> str:
    """Write a field's place as `classes[0].cpu.cores`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return text.removeprefix(".") or "the file"
