"""The zones of the container policy as a NodeResourceTopology, where the configuration wants it and the kind exists.

Schedulers read it to see what is free in which part of a node. It is off unless `spec.agent.nodeResourceTopology` of
the configuration in force is set: the objects of a large cluster are a load on the API server.
Source: Kubernetes SIG Scheduling, API topology.node.k8s.io/v1alpha2.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.owners import owned_by
from joulie_api.wire.metadata import WireObject
from joulie_containers.resource_api.proto import resource_api_pb2 as pb
from joulie_core.containers.idset import Cpus
from joulie_core.labels import MANAGED_BY, MANAGED_BY_AGENT
from joulie_core.node import Node

#: Type of a zone that is a container's share of its parent.
_CONTAINER_TYPE: Final = "allocation for container"
_MILLI: Final = 1000


class _Agent(msgspec.Struct, rename="camel"):
    node_resource_topology: bool = False


class _Spec(msgspec.Struct, rename="camel"):
    agent: _Agent = msgspec.field(default_factory=_Agent)


class _Manifest(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


_MANIFESTS: Final = msgspec.json.Decoder(_Manifest)
_OBJECTS: Final = msgspec.json.Decoder(WireObject)


def topology_body(node: Node, status: pb.ManagerStatus) -> dict[str, Any] | None:
    """Return the object to publish; None where the configuration in force does not want one."""
    manifest = status.configuration.manifest
    spec = decode(_MANIFESTS.decode, manifest.encode(), "configuration").spec if manifest else _Spec()
    if not spec.agent.node_resource_topology:
        return None
    zones = [each for zone in status.zones for each in _zones(zone)]
    return {
        "metadata": {"labels": {MANAGED_BY: MANAGED_BY_AGENT}, **owned_by(node)},
        "attributes": [{"name": "TopologyPolicy", "value": status.configuration.policy}],
        "zones": zones,
    }


def is_own(raw: bytes) -> bool:
    """Return whether an object was published by an agent, and not by another program."""
    return (decode(_OBJECTS.decode, raw, "NodeResourceTopology").metadata.labels or {}).get(
        MANAGED_BY
    ) == MANAGED_BY_AGENT


def _zones(zone: pb.Zone) -> Iterator[dict[str, Any]]:
    sets = {"cpuset": zone.cpus, "shared cpuset": zone.shared_idle, "memory set": zone.memory}
    attributes = {**{name: ids for name, ids in sets.items() if ids}, **zone.attributes}
    yield {
        "name": zone.name,
        "type": zone.kind,
        **({"parent": zone.parent} if zone.parent else {}),
        **_attributes(attributes),
        "resources": [
            {
                "name": "cpu",
                "capacity": _cpus(zone.capacity_milli),
                "allocatable": _cpus(zone.allocatable_milli),
                "available": _cpus(zone.available_milli),
            }
        ],
    }
    for container in zone.containers if zone.show_containers else ():
        requested = container.request_milli
        # A container that is not restricted to CPUs has what it requests.
        usable = max(requested, _MILLI * len(Cpus.parse(container.cpus)))
        yield {
            "name": f"{container.namespace}/{container.pod}/{container.name}",
            "type": _CONTAINER_TYPE,
            "parent": zone.name,
            **_attributes({"cpuset": container.cpus, "memory set": container.memory}),
            "resources": [
                {"name": "cpu", "capacity": _cpus(usable), "allocatable": _cpus(requested), "available": "0"}
            ],
        }


def _attributes(values: dict[str, str]) -> dict[str, Any]:
    found = [{"name": name, "value": value} for name, value in sorted(values.items()) if value]
    return {"attributes": found} if found else {}


def _cpus(milli: int) -> str:
    """Return a quantity as Kubernetes writes it; what is overcommitted is not available."""
    milli = max(0, milli)
    return f"{milli}m" if milli % 1000 else str(milli // 1000)
