"""Decoded forms of the objects that the operator publishes: what is needed to see whether others have changed them.

NodeTwins are not decoded by their model: each of them is read again whenever it was written, and the model takes twice
as long. Nor are NodePowerProfiles, but for their spec: owner and conditions are also read where another release has
written a spec that this one does not know.
"""

from dataclasses import dataclass
from typing import Any, Final

import msgspec
import pydantic

from joulie_api.decoding import decode
from joulie_api.wire.metadata import WireOwner
from joulie_core.kinds.node_power_profile import NodePowerProfileSpec
from joulie_core.kinds.node_twin import MeasurementQuality
from joulie_core.plausible import reading_watts


class PublishedCondition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One condition of a status, as it is read and written; times are RFC 3339."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


@dataclass(frozen=True, slots=True)
class PublishedTarget:
    """A NodePowerProfile as the API server has it; `spec` is None where it does not make sense to this release."""

    spec: NodePowerProfileSpec | None
    owner_uid: str
    conditions: tuple[PublishedCondition, ...] = ()


@dataclass(frozen=True, slots=True)
class PublishedTwin:
    """A NodeTwin as the API server has it, without most of its numbers."""

    schedulable_class: str
    last_updated: str
    owner_uid: str
    #: None where the power was not measured.
    measured_watts: float | None = None
    #: Measured or modelled; None where unknown.
    watts: float | None = None
    #: What the caps allow; None where unknown.
    capped_watts: float | None = None
    #: Where `watts` come from; empty where unknown.
    source: str = ""
    #: Of the whole server, by its BMC, and the interface that it was read by.
    server_watts: float | None = None
    server_source: str = ""


class _Meta(msgspec.Struct, rename="camel"):
    owner_references: list[WireOwner] | None = None


class _TargetStatus(msgspec.Struct):
    conditions: tuple[PublishedCondition, ...] = ()


class _Target(msgspec.Struct):
    metadata: _Meta
    spec: dict[str, Any] = {}
    status: _TargetStatus | None = None


class _Power(msgspec.Struct):
    source: str = ""
    quality: str = ""
    watts: float | None = msgspec.field(default=None, name="measuredNodePowerW")
    capped_watts: float | None = msgspec.field(default=None, name="nodeCappedPowerW")


class _Server(msgspec.Struct):
    source: str = ""
    watts: float | None = msgspec.field(default=None, name="measuredServerPowerW")


class _TwinStatus(msgspec.Struct, rename="camel"):
    schedulable_class: str = ""
    last_updated: str = ""
    power_measurement: _Power | None = None
    server_measurement: _Server | None = None


class _Twin(msgspec.Struct):
    metadata: _Meta
    status: _TwinStatus | None = None


_TARGETS: Final = msgspec.json.Decoder(_Target)
_TWINS: Final = msgspec.json.Decoder(_Twin)


def decode_target(raw: bytes) -> PublishedTarget:
    """Decode a NodePowerProfile; a spec that does not validate (an object made by hand) is None, to be overwritten.

    Raises:
        DecodeError: not an object of that shape at all.

    """
    wire = decode(_TARGETS.decode, raw, "NodePowerProfile")
    try:
        spec = NodePowerProfileSpec.model_validate(wire.spec)
    except pydantic.ValidationError:
        spec = None
    conditions = wire.status.conditions if wire.status is not None else ()
    return PublishedTarget(spec=spec, owner_uid=_owner_uid(wire.metadata), conditions=conditions)


def decode_twin(raw: bytes) -> PublishedTwin:
    """Decode a NodeTwin.

    Raises:
        DecodeError: not an object of that shape at all.

    """
    wire = decode(_TWINS.decode, raw, "NodeTwin")
    status = wire.status or _TwinStatus()
    power = status.power_measurement or _Power()
    server = status.server_measurement or _Server()
    watts = reading_watts(power.watts)
    return PublishedTwin(
        schedulable_class=status.schedulable_class,
        last_updated=status.last_updated,
        owner_uid=_owner_uid(wire.metadata),
        measured_watts=watts if power.quality == MeasurementQuality.MEASURED else None,
        watts=watts,
        capped_watts=reading_watts(power.capped_watts),
        source=power.source,
        server_watts=reading_watts(server.watts),
        server_source=server.source,
    )


def _owner_uid(meta: _Meta) -> str:
    return next((owner.uid for owner in meta.owner_references or () if owner.kind == "Node"), "")
