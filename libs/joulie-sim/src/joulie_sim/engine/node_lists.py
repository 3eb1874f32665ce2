"""The nodes of a simulation: from a list of openb's format, from node classes, or from a recorded cluster."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_devcluster.control_plane.nodes import (
    NodeClass,
    default_node_classes,
    node_manifests,
    read_node_classes,
    scale,
)
from joulie_sim.workload.openb import scaled_groups
from joulie_sim.workload.openb_csv import read_nodes
from joulie_sim.workload.openb_nodes import node_classes


class NodeListError(Exception):
    """A file is no list of nodes; the message has its name and the reason."""


class NodeLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A line of a file of recorded nodes."""

    name: str
    labels: dict[str, str]
    #: Kubernetes quantities by resource.
    allocatable: dict[str, str]


def default_nodes(total: int) -> list[Node]:
    """Return a mixed cluster of that many nodes with several CPU and GPU models."""
    return nodes_of_classes(scale(default_node_classes(), total))


def read_node_list(path: Path) -> list[Node]:
    """Read nodes: `.csv` is a list of openb's format, `.yaml` a file of node classes, `.jsonl` recorded nodes.

    Raises:
        NodeListError: the suffix is another, or a line is no node.
        joulie_devcluster.errors.NodeClassError: the file is no file of node classes.
        joulie_sim.workload.openb_csv.TraceError: the file is no list of openb's format.
        OSError: the file of recorded nodes cannot be read.
    """
    match path.suffix:
        case ".csv":
            return nodes_of_classes(node_classes(scaled_groups(read_nodes(path), 1.0)))
        case ".yaml" | ".yml":
            return nodes_of_classes(read_node_classes(path))
        case ".jsonl":
            return _recorded(path)
        case _:
            raise NodeListError(f"{path}: the suffix of a list of nodes is .csv, .yaml or .jsonl")


def write_node_lines(path: Path, nodes: Sequence[Node]) -> None:
    """Write nodes as JSON lines."""
    lines = (NodeLine(node.name, dict(node.labels), dict(node.allocatable)) for node in nodes)
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def nodes_of_classes(classes: Sequence[NodeClass]) -> list[Node]:
    """Return the nodes of node classes."""
    return [_node(manifest) for manifest in node_manifests(classes)]


def _node(manifest: dict[str, Any]) -> Node:
    metadata, status = manifest["metadata"], manifest["status"]
    return Node(
        name=NodeName(metadata["name"]),
        labels=metadata["labels"],
        allocatable=status["allocatable"],
        capacity=status["capacity"],
    )


def _recorded(path: Path) -> list[Node]:
    decoder = msgspec.json.Decoder(NodeLine)
    nodes = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            read = decoder.decode(line)
        except msgspec.DecodeError as error:
            raise NodeListError(f"{path}, line {number}: {error}") from error
        nodes.append(
            Node(NodeName(read.name), labels=read.labels, allocatable=read.allocatable, capacity=read.allocatable)
        )
    return nodes
