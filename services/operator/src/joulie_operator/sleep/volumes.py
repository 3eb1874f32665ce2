"""PersistentVolumeClaims and PersistentVolumes as the decision about sleep reads them: which nodes can use the data."""

from dataclasses import dataclass
from typing import Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.wire.terms import WireNodeSelector
from joulie_core.pod import Term

#: A part that is not looked into.
_Part = msgspec.Raw | msgspec.UnsetType


@dataclass(frozen=True, slots=True)
class WatchedClaim:
    """A PersistentVolumeClaim; `volume` is empty until it is bound."""

    volume: str


@dataclass(frozen=True, slots=True)
class WatchedVolume:
    """A PersistentVolume."""

    #: Terms of its node affinity, ORed; None where every node can mount it.
    required_terms: tuple[Term, ...] | None
    #: Whether its data is on a node.
    local: bool


class _Affinity(msgspec.Struct):
    required: WireNodeSelector | None = None


class _VolumeSpec(msgspec.Struct, rename="camel"):
    node_affinity: _Affinity | None = None
    local: _Part = msgspec.UNSET
    host_path: _Part = msgspec.UNSET


class _Volume(msgspec.Struct):
    spec: _VolumeSpec


class _ClaimSpec(msgspec.Struct, rename="camel"):
    volume_name: str = ""


class _Claim(msgspec.Struct):
    spec: _ClaimSpec


_VOLUMES: Final = msgspec.json.Decoder(_Volume)
_CLAIMS: Final = msgspec.json.Decoder(_Claim)


def read_claim(raw: bytes) -> WatchedClaim:
    """Decode a PersistentVolumeClaim.

    Raises:
        DecodeError: not a PersistentVolumeClaim.
    """
    return WatchedClaim(decode(_CLAIMS.decode, raw, "PersistentVolumeClaim").spec.volume_name)


def read_volume(raw: bytes) -> WatchedVolume:
    """Decode a PersistentVolume.

    Raises:
        DecodeError: not a PersistentVolume.
    """
    spec = decode(_VOLUMES.decode, raw, "PersistentVolume").spec
    required = spec.node_affinity.required if spec.node_affinity else None
    return WatchedVolume(
        required.terms() if required else None,
        local=spec.local is not msgspec.UNSET or spec.host_path is not msgspec.UNSET,
    )
