"""The pods of this node and its ResourceSlices, as the API server has them.

Guarantees that nothing is taken from a copy that is incomplete or old: without contact with the API server for half a
minute, or 70 s more on a watch that is open and quiet, there is none. An object that cannot be decoded is not there. A
cluster without ResourceSlices, or that does not let them be read, has none.
"""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final

import msgspec

from joulie_api.client import KubeClient
from joulie_api.decoding import decode
from joulie_api.optional_watch import OptionalWatch
from joulie_api.reflector import Reflector
from joulie_api.resources import PODS, RESOURCE_SLICES
from joulie_api.wire import decode_pod
from joulie_api.wire.metadata import WireOwner, controller_of
from joulie_core.holders.held import NodePods
from joulie_core.holders.records import PODS_TOLERANCE_S, NodePod, SliceDevice, node_pod


class _Meta(msgspec.Struct, rename="camel"):
    owner_references: list[WireOwner] | None = None


class _Pod(msgspec.Struct):
    metadata: _Meta


class _Pool(msgspec.Struct):
    name: str = ""
    generation: int = 0


class _Value(msgspec.Struct):
    string: str | None = None


#: Of Kubernetes: 32 attributes.
_Attributes = Annotated[dict[str, _Value], msgspec.Meta(max_length=256)]


class _Device(msgspec.Struct):
    name: str = ""
    attributes: _Attributes | None = None


class _SliceSpec(msgspec.Struct):
    driver: str = ""
    pool: _Pool = msgspec.field(default_factory=_Pool)
    #: Of Kubernetes: 128 devices.
    devices: Annotated[list[_Device], msgspec.Meta(max_length=1024)] | None = None


class _Slice(msgspec.Struct):
    spec: _SliceSpec


_PODS: Final = msgspec.json.Decoder(_Pod)
_SLICES: Final = msgspec.json.Decoder(_Slice)


def decode_node_pod(raw: bytes) -> NodePod:
    """Decode a Pod, as far as holders and energy depend on it.

    Raises:
        DecodeError: not a Pod.
    """
    wire = decode(_PODS.decode, raw, "Pod")
    owner = controller_of(wire.metadata.owner_references) or WireOwner()
    return node_pod(decode_pod(raw), owner.kind, owner.name)


def decode_slice(raw: bytes) -> tuple[SliceDevice, ...]:
    """Decode the devices of a ResourceSlice.

    Raises:
        DecodeError: not a ResourceSlice.
    """
    spec = decode(_SLICES.decode, raw, "ResourceSlice").spec
    return tuple(
        SliceDevice(spec.driver, spec.pool.name, spec.pool.generation, device.name, _texts(device.attributes or {}))
        for device in spec.devices or ()
    )


def _texts(attributes: dict[str, _Value]) -> dict[str, str]:
    """Return the attributes that are texts; a domain before the name is the driver's or Kubernetes' own."""
    return {name.rpartition("/")[2]: value.string for name, value in attributes.items() if value.string is not None}


class NodePodsWatch:
    """The pods and ResourceSlices of one node."""

    def __init__(self, client: KubeClient, node_name: str) -> None:
        selector = f"spec.nodeName={node_name}"
        self._pods = Reflector(client, PODS, decode_node_pod, field_selector=selector)
        self._slices = Reflector(client, RESOURCE_SLICES, decode_slice, field_selector=selector)
        self._optional = OptionalWatch(client, "resource slices", self._slices)

    @property
    def pods(self) -> Reflector[NodePod]:
        """The watch of the pods, to be run."""
        return self._pods

    @property
    def slices(self) -> OptionalWatch:
        """The watch of the ResourceSlices, to be run."""
        return self._optional

    def current_pods(self) -> Mapping[str, NodePod] | None:
        """Return the pods; None while they are not known."""
        return None if self._pods.is_stale(PODS_TOLERANCE_S) else _valid(self._pods)

    def unreadable_pods(self) -> Collection[str]:
        """Return the keys of pods that are there and cannot be decoded."""
        return self._pods.invalid

    def current(self) -> NodePods | None:
        """Return the pods and the devices of ResourceSlices; None while they are not known."""
        pods = self.current_pods()
        if pods is None or self._optional.is_unknown(PODS_TOLERANCE_S):
            return None
        return NodePods(
            pods=pods,
            slices=tuple(device for devices in _valid(self._slices).values() for device in devices),
        )


def _valid(reflector: Reflector[Any]) -> dict[str, Any]:
    return {key: value for key, value in reflector.store.items() if key not in reflector.invalid}
