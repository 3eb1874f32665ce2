"""Holders of a node's GPUs in the status of its TelemetryProfile: docs/decisions/0043-device-holders.md."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from joulie_core.held_as import HeldAs
from joulie_core.kinds.base import Count, Model, Text, Watts
from joulie_core.kinds.bounds import cut_text

_Name = Annotated[str, Field(max_length=253), BeforeValidator(cut_text(253))]
#: GPUs of one report, and holders of one GPU in it.
MOST_REPORTED_DEVICES: Final = 64
MOST_REPORTED_HOLDERS: Final = 8


class HolderClass(StrEnum):
    """Workload class of a holder; unknown is neither of the two."""

    PERFORMANCE = "performance"
    STANDARD = "standard"
    UNKNOWN = "unknown"


class HolderReport(Model):
    """One container that holds a GPU."""

    namespace: _Name
    """Namespace of the pod."""
    pod: _Name
    """Name of the pod."""
    container: _Name
    """Name of the container."""
    workload_class: HolderClass = HolderClass.UNKNOWN
    """Workload class of the pod; `unknown` if its annotation is neither, or if it may be another pod of this name."""


class BandReport(Model):
    """Lowest and highest value of a figure."""

    lower: Watts
    """Lowest value."""
    upper: Watts
    """Highest value."""


class ClassLimitNow(Model):
    """Changes that a limit by class would make, as of `status.power.updatedAt`."""

    clock_bound: _Name = ""
    """Why the graphics clock is no higher: `power-limit`, `clock-limit`, `thermal`, `idle`, `none` or `unknown`."""
    limited: bool | None = None
    """Whether a limit of Joulie's is in force, by the node's profile or by class; absent if that is not known."""
    limit_watts: Watts | None = None
    """Power limit of the profile in force; absent without one."""
    limit_mhz: Count | None = None
    """Clock limit in force, of the profile or by class; absent without one."""
    saved_watts: BandReport | None = None
    """Watts of the whole GPU that the limit would save; absent without a limit, or for the reason below."""
    saved_reason: _Name = ""
    """Reason why `savedWatts` is not stated; docs/class-limits.md lists them."""
    slowdown_pct: BandReport | None = None
    """How much longer, in percent, the work of the moment would take; absent as `savedWatts`."""
    slowdown_reason: _Name = ""
    """Reason why `slowdownPct` is not stated."""


class EnforcedLimitReport(Model):
    """State of the limit of one GPU where limits by class are set (`CLASS_LIMITS` is `Enforce`)."""

    reason: _Name = ""
    """`Set`, or the reason why it is not, or not lifted yet, in CamelCase; docs/class-limits.md lists them."""
    limit_mhz: Count | None = None
    """Highest graphics clock that is, or may be, set; absent without one."""
    message: Annotated[Text, BeforeValidator(cut_text(300))] = ""
    """Details for people; of a limit that is not lifted, the GPU and the pods that hold it."""
    lifted_by: _Name = ""
    """Way in which a limit is lifted when other pods come: `BeforeStart` of their containers, which wait for it, or
    `Polling`, after the fact."""
    lifted_within_seconds: Annotated[float, Field(ge=0)] = 0
    """With `Polling`, the longest time that such a pod may have the device under the limit, without the time of the
    driver; with `BeforeStart`, how long its containers wait at most: lifting is tried again after that."""


class ClassLimitReport(Model):
    """The limit that a GPU would have by the class of its holders; it is not set but where `enforced` says so."""

    reason: _Name = ""
    """Reason for the limit, or for none, in CamelCase; docs/class-limits.md lists them."""
    message: Annotated[Text, BeforeValidator(cut_text(300))] = ""
    """Details for people."""
    allowed_slowdown: _Name = ""
    """Slowdown that all holders allow; empty if it is not known."""
    clock_mhz: Count | None = None
    """Highest graphics clock that it would have."""
    watts: Watts | None = None
    """Power limit that it would have, where its clock cannot be limited."""
    held_clock_mhz: Count | None = None
    """Highest graphics clock that it held under load without a limit of Joulie's; absent if it was not measured."""
    enforced: EnforcedLimitReport | None = None
    """State where limits by class are set; absent where they are only shown."""
    now: ClassLimitNow | None = None
    """Effect at the moment."""


class DeviceReport(Model):
    """One GPU and what holds it."""

    uuid: _Name
    """UUID of the GPU."""
    index: Count = 0
    """Index of the GPU; it may change between boots."""
    held_as: HeldAs = HeldAs.UNKNOWN
    """`standard` only if every holder is known to be a standard pod; `free` if no pod holds the GPU."""
    reason: _Name = ""
    """Reason, in CamelCase; docs/holders.md lists them."""
    message: Annotated[Text, BeforeValidator(cut_text(300))] = ""
    """Details for people."""
    holders: Annotated[tuple[HolderReport, ...], Field(max_length=MOST_REPORTED_HOLDERS)] = ()
    """The first holders, by name."""
    holder_count: Count = 0
    """Number of all holders."""
    watts: Watts | None = None
    """Power of the whole GPU, as of `status.power.updatedAt`; absent if it was not measured."""
    class_limit: ClassLimitReport | None = None
    """The limit that it would have by the class of its holders, where the agent follows that (`CLASS_LIMITS`)."""
