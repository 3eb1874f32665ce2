"""Limits of cores by the class of the containers that have them alone, as a client wants them."""

from collections.abc import Iterable
from typing import Final

from joulie_actuator.cpu_class_protocol import CoreFrequencyLimit
from joulie_core.containers.idset import Cpus, union


class CoreFrequencyLimits:
    """Highest frequencies in kHz, by CPU."""

    def __init__(self, limits: Iterable[CoreFrequencyLimit]) -> None:
        found = [(Cpus.parse(each.cpus), each.max_khz) for each in limits]
        #: The CPUs that have a limit.
        self.cpus = union(cpus for cpus, _ in found)
        self._khz = {cpu: khz for cpus, khz in found for cpu in cpus}

    def of(self, cpus: Iterable[int]) -> int | None:
        """Return the limit of a frequency policy with these CPUs: the highest of theirs, None where one has none."""
        found = [self._khz.get(cpu) for cpu in cpus]
        known = [khz for khz in found if khz is not None]
        return max(known) if known and len(known) == len(found) else None


NO_CORE_LIMITS: Final = CoreFrequencyLimits(())
