"""Interrupts in requests to the actuator."""

from typing import Annotated, Final

import msgspec

from joulie_actuator.cpu_class_protocol import CpuList

#: Claims in one request: one for each type of balloons.
MOST_CLAIMS: Final = 128
#: Numbers of interrupts, and globs of the name of a device or chip.
Patterns = Annotated[tuple[Annotated[str, msgspec.Meta(max_length=253)], ...], msgspec.Meta(max_length=1024)]


class InterruptClaims(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The interrupts that some CPUs handle."""

    patterns: Patterns
    cpus: CpuList
