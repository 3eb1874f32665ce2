"""Events of pods whose containers have cores with a limit by class that their pods do not allow.

Source: docs/decisions/0067-class-limits-on-cores.md.
"""

from collections.abc import Callable, Mapping

from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown
from joulie_core.class_caps.enforced_limit import NOT_LIFTED_EVENT
from joulie_core.class_caps.pod_consent import PodConsent
from joulie_core.containers.container import ContainerId, ContainerInfo, PodInfo
from joulie_core.containers.idset import Cpus
from joulie_core.containers.policy import Placement


class CoreLimitEvents:
    """Tells each container once of the cores whose limit was not lifted in time.

    Args:
        record: records an Event about a container, with its reason and message.
        consent_of: returns what a pod allows.
    """

    def __init__(
        self, record: Callable[[ContainerInfo, str, str], None], consent_of: Callable[[PodInfo], PodConsent]
    ) -> None:
        self._record = record
        self._consent_of = consent_of
        self._told: set[tuple[ContainerId, Cpus]] = set()

    def note(
        self,
        left: Mapping[Cpus, AllowedSlowdown],
        containers: Mapping[ContainerId, ContainerInfo],
        placements: Mapping[ContainerId, Placement],
    ) -> None:
        """Tell the containers that may run on limited cores and do not allow it.

        Args:
            left: what was allowed when the limits were set that were not lifted in time, by the CPUs of a group.
            containers: all containers.
            placements: their CPUs; a container without CPUs of its own may run on every one.
        """
        found = {
            (name, group)
            for name, info in containers.items()
            for group, allowed in left.items()
            if _has(placements.get(name), group) and not _allows(self._consent_of(info.pod), allowed)
        }
        for name, group in sorted(found - self._told, key=lambda each: (each[0], min(each[1]))):
            message = f"CPUs {group} have a limit by class that its pod does not allow, and that was not lifted in time"
            self._record(containers[name], NOT_LIFTED_EVENT, message)
        self._told = {each for each in self._told | found if each[0] in containers}


def _has(placement: Placement | None, group: Cpus) -> bool:
    return placement is None or not placement.cpus or not placement.cpus.isdisjoint(group)


def _allows(consent: PodConsent, allowed: AllowedSlowdown) -> bool:
    slowdown = consent.slowdown
    return consent.consents and slowdown is not None and slowdown.allowed.pct >= allowed.pct
