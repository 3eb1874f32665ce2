"""Node classes, read from YAML, and the KWOK Node objects made from them.

Creates no objects in a cluster; `node_pool` does. The Node labels are those from which Joulie derives the hardware of a
node that has no NodeHardware yet (`joulie_core.labels`).
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from joulie_core import labels as keys
from joulie_core.quantity import QuantityError, parse_quantity
from joulie_devcluster.control_plane.manifests import DATA
from joulie_devcluster.errors import NodeClassError

# KWOK manages only nodes with this annotation, and ignores real nodes.
KWOK_ANNOTATION = "kwok.x-k8s.io/node"
KWOK_ANNOTATION_VALUE = "fake"

#: A node that reports none takes no pod that requests any, such as those of the chart.
_EPHEMERAL_STORAGE: Final = "400Gi"

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
    """The CPUs of a node. Its CPU capacity is `cores * threads_per_core`.

    Attributes:
        model: CPU model.
        sockets: number of sockets.
        cores: physical cores of all sockets.
        threads_per_core: hardware threads of each core.
    """

    model: LabelValue
    sockets: Count = 2
    cores: Count
    threads_per_core: Annotated[int, Field(ge=1, le=8)] = 2


class GpuClass(_Model):
    """The GPUs of a node, all of one model."""

    model: LabelValue
    count: Count
    resource: Literal["nvidia.com/gpu", "amd.com/gpu"] = "nvidia.com/gpu"


class Taint(_Model):
    """A Kubernetes taint."""

    key: str
    value: LabelValue = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class NodeClass(_Model):
    """A set of identical nodes.

    Attributes:
        name: prefix of the node names: `name`-0, `name`-1, ...
        count: number of nodes.
        cpu: CPUs.
        gpu: GPUs; None for a CPU-only node.
        memory: memory capacity, a Kubernetes quantity.
        pods: maximum number of pods per node.
        kind: value of `joulie.io/hw.kind`; None omits the label.
        racks: values of `joulie.io/rack`, assigned round robin.
        cooling_zones: values of `joulie.io/cooling-zone`, assigned round robin.
        managed: whether Joulie manages the nodes.
        labels: additional labels, which override those derived from the other fields.
        annotations: additional annotations.
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
        """Return the names of the nodes."""
        return [f"{self.name}-{index}" for index in range(self.count)]


class NodeFile(_Model):
    """A file of node classes."""

    classes: Annotated[tuple[NodeClass, ...], Field(min_length=1)]


def parse_node_classes(text: str, *, source: str) -> tuple[NodeClass, ...]:
    """Parse node classes from YAML: a mapping with a list `classes`.

    Args:
        text: the YAML.
        source: name of the file, for messages.

    Raises:
        NodeClassError: the text is invalid; the message lists every invalid field, its value and the reason.
    """
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise NodeClassError(f"{source} is not YAML: {error}") from error
    try:
        classes = NodeFile.model_validate(content).classes
    except ValidationError as error:
        lines = [f"  {_field(problem['loc'])} = {problem['input']!r}: {problem['msg']}" for problem in error.errors()]
        raise NodeClassError("\n".join([f"{source} is not a valid file of node classes:", *lines])) from error
    names = [name for node_class in classes for name in node_class.node_names()]
    duplicates = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) != len(names) else []
    if duplicates:
        raise NodeClassError(f"{source}: several classes define the nodes {', '.join(duplicates[:5])}; rename a class")
    return classes


def read_node_classes(path: Path) -> tuple[NodeClass, ...]:
    """Read a file of node classes.

    Raises:
        NodeClassError: the file cannot be read or is invalid.
    """
    try:
        text = path.read_text()
    except OSError as error:
        raise NodeClassError(f"{path} cannot be read: {error.strerror}") from error
    return parse_node_classes(text, source=str(path))


def default_node_classes() -> tuple[NodeClass, ...]:
    """Return the classes of a mixed cluster of 40 nodes with several CPU and GPU models."""
    text = (DATA / "default-nodes.yaml").read_text()
    return parse_node_classes(text, source="default-nodes.yaml")


def scale(classes: Sequence[NodeClass], total: int) -> tuple[NodeClass, ...]:
    """Return the same mix with `total` nodes, by the largest-remainder method, without classes that get no node."""
    current_total = sum(node_class.count for node_class in classes)
    shares = [total * node_class.count / current_total for node_class in classes]
    counts = [int(share) for share in shares]
    by_remainder = sorted(range(len(classes)), key=lambda index: (counts[index] - shares[index], index))
    for index in by_remainder[: total - sum(counts)]:
        counts[index] += 1
    pairs = zip(classes, counts, strict=True)
    return tuple(node_class.model_copy(update={"count": count}) for node_class, count in pairs if count > 0)


def node_manifests(classes: Sequence[NodeClass]) -> list[dict[str, Any]]:
    """Return the Node objects of all classes, status included (KWOK keeps an existing capacity)."""
    return [
        _node(node_class, name, index) for node_class in classes for index, name in enumerate(node_class.node_names())
    ]


def _node(node_class: NodeClass, name: str, index: int) -> dict[str, Any]:
    capacity = {
        "cpu": str(node_class.cpu.cores * node_class.cpu.threads_per_core),
        "memory": node_class.memory,
        "pods": str(node_class.pods),
        "ephemeral-storage": _EPHEMERAL_STORAGE,
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
        # A kubelet reports the ID of its boot; KWOK keeps the one that is there.
        "status": {
            "capacity": capacity,
            "allocatable": dict(capacity),
            "nodeInfo": {"bootID": f"{name}-boot"},
        },
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
        keys.RACK: _round_robin(node_class.racks, index),
        keys.COOLING_ZONE: _round_robin(node_class.cooling_zones, index),
    }
    return {key: value for key, value in found.items() if value is not None} | node_class.labels


def _round_robin(values: Sequence[str], index: int) -> str | None:
    return values[index % len(values)] if values else None


def _field(location: tuple[int | str, ...]) -> str:
    """Return the path of a field as `classes[0].cpu.cores`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return text.removeprefix(".") or "the file"
