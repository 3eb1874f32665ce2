"""NodeBMC (`nbmc`): the baseboard management controller (BMC) of one node, its power state, readings and cap."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import AfterValidator, Field

from joulie_core import labels
from joulie_core.kinds.base import (
    CheckedModel,
    Column,
    Conditions,
    CustomResource,
    Invariant,
    Kind,
    Model,
    NodeNameField,
    PositiveWatts,
    TextRule,
    Timestamp,
    Watts,
)

#: The status of a NodeBMC is written at least this often, in seconds. Readers take one that is three times as old for
#: unknown.
STATUS_HEARTBEAT_S: Final = 60.0
#: Defaults of the out-of-band service, in seconds: what a server has to shut down before its power is forced off, and
#: after which a request that had no effect is repeated.
GRACEFUL_OFF_S: Final = 180.0
POWER_REPEAT_S: Final = 60.0
#: Characters of a boot ID that are kept: a UUID has 36.
MOST_OF_BOOT_ID: Final = 64
#: Type of the condition that the operator writes: Joulie switched the server off, and it stays off until a person acts.
LEFT_OFF: Final = "LeftOff"
#: Boots whose time is kept.
MOST_BOOTS: Final = 20
#: Reset types that have the server's system end its work, the preferred one first.
GRACEFUL_RESETS: Final = ("GracefulShutdown", "PushPowerButton")

_PATH: Final = TextRule("/redfish/v1/.*", "must be a path, such as /redfish/v1/Systems/1")
_ADDRESS: Final = TextRule(
    r"(https|ipmi|wol)://[^/@?#\s]+",
    "must be a scheme and a host, such as https://10.0.0.17 or ipmi://bmc-17:623, without path, user and password",
)
_MAC: Final = TextRule(
    "([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}", "must be six pairs of hexadecimal digits, such as 52:54:00:12:34:56"
)
ResourcePath = Annotated[str, Field(max_length=1024, json_schema_extra=_PATH.schema), AfterValidator(_PATH.check)]
BmcAddress = Annotated[str, Field(max_length=512, json_schema_extra=_ADDRESS.schema), AfterValidator(_ADDRESS.check)]
MacAddress = Annotated[str, Field(max_length=17, json_schema_extra=_MAC.schema), AfterValidator(_MAC.check)]
SecretName = Annotated[str, Field(min_length=1, max_length=253)]
Seconds = Annotated[float, Field(ge=0)]


class BmcProtocol(StrEnum):
    """Protocol of the BMC."""

    REDFISH = "redfish"
    IPMI = "ipmi"
    WOL = "wol"


class PowerOff(StrEnum):
    """Permission to power off the node."""

    ALLOWED = "Allowed"
    NEVER = "Never"


class ForcedOff(StrEnum):
    """When the power may be forced off: after a graceful shutdown without effect, or also without one."""

    AFTER_SHUTDOWN = "AfterShutdown"
    ALLOWED = "Allowed"


class DesiredPower(StrEnum):
    """Power state that a node shall have; `Unmanaged`: whatever it is."""

    ON = "On"
    OFF = "Off"
    UNMANAGED = "Unmanaged"


def is_own_request(annotations: Mapping[str, str], desired: DesiredPower) -> bool:
    """Return whether the operator has written the desired power of a NodeBMC, by its annotations, and not a person."""
    return annotations.get(labels.REQUESTED_POWER) == desired


class PowerState(StrEnum):
    """Power state as the BMC reports it."""

    ON = "On"
    OFF = "Off"
    POWERING_ON = "PoweringOn"
    POWERING_OFF = "PoweringOff"
    UNKNOWN = "Unknown"


class PowerLimitUnit(StrEnum):
    """Unit of the BMC's power limit."""

    WATTS = "W"
    PERCENT = "%"
    OTHER = "other"


class LimitException(StrEnum):
    """Action of the BMC when the power limit cannot be held."""

    NO_ACTION = "NoAction"
    LOG_EVENT_ONLY = "LogEventOnly"
    HARD_POWER_OFF = "HardPowerOff"
    OTHER = "Other"


class BmcSecretRef(Model):
    """Secret in the namespace of the out-of-band service."""

    name: SecretName
    """Name of the Secret."""


class BmcCap(Model):
    """Cap of the whole server."""

    watts: PositiveWatts
    """Cap in watts at the server's power supplies."""
    expires_at: Timestamp
    """Time at which the cap ends unless it is written with a later one; the limit found before is restored then."""


class NodeBMCSpec(CheckedModel):
    """Access to the BMC, and what it shall do."""

    invariants = (
        Invariant(
            "!has(self.address) || !has(self.protocol) || "
            "self.address.startsWith(self.protocol == 'redfish' ? 'https://' : self.protocol + '://')",
            "address is https://... for redfish, ipmi://... for ipmi and wol://... for wol",
            lambda spec: spec.address.startswith(
                "https://" if spec.protocol is BmcProtocol.REDFISH else f"{spec.protocol.value}://"
            ),
        ),
        Invariant(
            "!has(self.protocol) || (self.protocol == 'wol') != has(self.credentialsSecretRef)",
            "credentialsSecretRef is required for redfish and ipmi, and not for wol",
            lambda spec: (spec.protocol is BmcProtocol.WOL) != (spec.credentials_secret_ref is not None),
        ),
        Invariant(
            "!has(self.protocol) || (self.protocol == 'wol') == has(self.mac)",
            "mac is required for wol, and for nothing else",
            lambda spec: (spec.protocol is BmcProtocol.WOL) == (spec.mac is not None),
        ),
        Invariant(
            "!has(self.protocol) || self.protocol != 'wol' || !has(self.powerOff) || self.powerOff == 'Never'",
            "a node cannot be powered off by wol: powerOff must be Never",
            lambda spec: spec.protocol is not BmcProtocol.WOL or spec.power_off is PowerOff.NEVER,
        ),
    )

    node_name: NodeNameField
    protocol: BmcProtocol
    """Protocol of the BMC."""
    address: BmcAddress
    """Address of the BMC, such as `https://10.0.0.17`, `https://bmc-17.example.org:8443` or `ipmi://10.0.0.17`; for
    wol the broadcast address of the node's network, such as `wol://10.0.0.255`."""
    mac: MacAddress | None = None
    """For wol: MAC address of the node's network card."""
    system: ResourcePath | None = None
    """Path of the ComputerSystem, such as `/redfish/v1/Systems/1`; needed where the BMC has several."""
    credentials_secret_ref: BmcSecretRef | None = None
    """For redfish and ipmi: Secret with the keys `username` and `password`; `addresses`, those to which they may be
    sent; and for redfish `ca.crt`, the certificates (PEM) that verify the BMC, absent: the public ones."""
    ca_secret_ref: BmcSecretRef | None = None
    """Deprecated, not read: the certificates are in the Secret of `credentialsSecretRef`. Where that one has none, a
    BMC for which this is set is not connected to."""
    power_off: PowerOff = PowerOff.NEVER
    """Whether the node may be powered off; `Never` takes precedence over `desiredPower`."""
    forced_off: ForcedOff = ForcedOff.AFTER_SHUTDOWN
    """Where `powerOff` is `Allowed`, when the power may be forced off: `AfterShutdown`, once a graceful shutdown that
    the BMC has taken was without effect in time; `Allowed`, also where the BMC offers none, or refuses it."""
    desired_power: DesiredPower = DesiredPower.UNMANAGED
    """Power state that the node shall have."""
    cap: BmcCap | None = None
    """Cap of the whole server; absent: the limit is not changed, and that found before the last cap is restored."""


def has_way_off(spec: NodeBMCSpec, reset_types: Collection[str]) -> bool:
    """Return whether a server can be powered off: by a graceful shutdown, or without one by a person's word."""
    return spec.forced_off is ForcedOff.ALLOWED or any(each in reset_types for each in GRACEFUL_RESETS)


class BmcCapability(Model):
    """Capabilities of the BMC, as they were discovered."""

    readable: bool
    """Whether it has a power reading."""
    cappable: bool
    """Whether it has a power limit, in watts, that can be written."""
    unit: PowerLimitUnit | None = None
    """Unit of the power limit; absent without one."""
    min_watts: Watts | None = None
    """Lowest limit; absent if unknown."""
    max_watts: Watts | None = None
    """Highest limit; absent if unknown."""
    limit_exception: LimitException | None = None
    """What the BMC does when the limit cannot be held; absent if unknown."""
    cap_path: Annotated[str, Field(max_length=1024)] = ""
    """Resource that has the power limit; empty without one."""
    reading_path: Annotated[str, Field(max_length=1024)] = ""
    """Resource that has the power reading; empty without one."""
    reset_types: Annotated[tuple[Annotated[str, Field(max_length=64)], ...], Field(max_length=32)] = ()
    """Values of the reset action that the BMC takes."""


class CapOwner(StrEnum):
    """Owner of the power limit that was read: the out-of-band service, or another program or user."""

    JOULIE = "Joulie"
    EXTERNAL = "External"


class BmcCapStatus(Model):
    """The power limit in force, and the one that is restored when the cap ends."""

    watts: Watts | None = None
    """Limit that was read last; absent if there is none."""
    requested_watts: PositiveWatts | None = None
    """Cap that was written; recorded before the BMC is written to. Absent: no cap of Joulie's is in force."""
    confirmed_watts: PositiveWatts | None = None
    """Limit that was read back after the cap was written; absent while that is not known."""
    original_watts: PositiveWatts | None = None
    """Limit before the first cap; absent if there was none."""
    owner: CapOwner = CapOwner.EXTERNAL
    """Who set the limit."""


class BmcBoot(Model):
    """A boot that was requested and is awaited; recorded before the request."""

    requested_at: Timestamp
    """Time of the request to power on."""
    boot_id: Annotated[str, Field(max_length=MOST_OF_BOOT_ID)] = ""
    """Boot ID of the Node before; empty where it had none."""


class NodeBMCStatus(Model):
    """Observed state of the server."""

    power_state: PowerState = PowerState.UNKNOWN
    """Power state; Unknown while the BMC does not answer."""
    last_transition: Timestamp | None = None
    """Time since which the power state is what it is."""
    power_watts: Watts | None = None
    """Power of the whole server; absent if unknown or older than three intervals."""
    sampled_at: Timestamp | None = None
    """Time of the newest answer of the BMC."""
    interval_seconds: Seconds | None = None
    """Time over which the BMC measures, or after which it has a new value; the reading is not newer than that."""
    boot_seconds: Seconds | None = None
    """95th percentile of the last boots, from the request to the node's readiness; absent before the first."""
    recent_boots: Annotated[tuple[Seconds, ...], Field(max_length=MOST_BOOTS)] = ()
    """Times of the last boots, oldest first."""
    pending_boot: BmcBoot | None = None
    """Boot that was requested; absent once the node is ready, or was not in time."""
    capability: BmcCapability | None = None
    """What the BMC can do; absent until it has answered."""
    cap: BmcCapStatus | None = None
    """Power limit; absent if the BMC has none."""
    conditions: Conditions = ()
    """Conditions: Reachable, PowerAsDesired, Capped, WakeProven (this service has powered the node on, and it became
    ready), and Accepted, False where the newest version of the object cannot be used and the last valid one, if there
    is one, stays in force. LeftOff is the operator's: it has switched the server off, and it stays off until a person
    acts."""


class NodeBMC(CustomResource):
    """BMC of one node; its status is written by the out-of-band service."""

    info: ClassVar[Kind] = Kind(
        kind="NodeBMC",
        plural="nodebmcs",
        short_name="nbmc",
        spec=NodeBMCSpec,
        status=NodeBMCStatus,
        columns=(
            Column("Node", ".spec.nodeName"),
            Column("Desired", ".spec.desiredPower"),
            Column("Power", ".status.powerState"),
            Column("Watts", ".status.powerWatts", "number"),
            Column("Cap", ".status.cap.requestedWatts", "number"),
            Column("Boot", ".status.bootSeconds", "number"),
            Column("Sampled", ".status.sampledAt", "date"),
        ),
    )

    spec: NodeBMCSpec
    status: NodeBMCStatus = NodeBMCStatus()
