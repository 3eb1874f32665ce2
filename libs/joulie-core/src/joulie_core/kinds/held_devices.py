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
