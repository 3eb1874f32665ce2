"""The reply to a request for limits of cores: on which CPUs they could not be set or lifted."""

from collections.abc import Iterator
from typing import Final

from joulie_actuator.class_report import ABSENT
from joulie_actuator.core_limits import CoreFrequencyLimits
from joulie_actuator.cpu_class_protocol import FailedCores
from joulie_actuator.frequency_arbiter import Applied
from joulie_actuator.hardware.cpuinfo import HostCpus
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import CoreLimitsReport
from joulie_core.containers.idset import Cpus, union

_SHARED: Final = HardwareFailure(Reason.OVERRULED, "CPUs without a limit share the frequency policy")
_NO_POLICY: Final = HardwareFailure(Reason.NO_INTERFACE, "no frequency policy")


def report(cpus: HostCpus, limits: CoreFrequencyLimits, applied: Applied) -> CoreLimitsReport:
    """Return the reply for what has been applied."""
    failed = [*_failed(cpus, limits, applied)]
    online = Cpus(cpus.topology.core_of)
    bare = (limits.cpus & online) - union(Cpus(policy.cpus) for policy in cpus.policies)
    if bare:
        failed.append(FailedCores(cpus=str(bare), failure=_NO_POLICY))
    return CoreLimitsReport(failed=tuple(failed))


def _failed(cpus: HostCpus, limits: CoreFrequencyLimits, applied: Applied) -> Iterator[FailedCores]:
    # A policy without an online CPU limits nothing; it is restored when it returns.
    left = {each.key: each.failure for each in applied.restored if not each.done and each.reason not in ABSENT}
    for policy in cpus.policies:
        members = Cpus(policy.cpus)
        answer = applied.answers.get(policy.max_freq.key, left.get(policy.max_freq.key))
        if isinstance(answer, HardwareFailure):
            yield FailedCores(cpus=str(members), failure=answer)
        elif not members.isdisjoint(limits.cpus) and not members <= limits.cpus:
            yield FailedCores(cpus=str(members & limits.cpus), failure=_SHARED)
