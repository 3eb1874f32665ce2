"""The reply to a request for CPU classes: what is in force on the CPUs of each, and what is not."""

from collections.abc import Sequence
from typing import Final

from joulie_actuator import results
from joulie_actuator.class_controls import ClassAssignment, Shortages
from joulie_actuator.cpu_class_protocol import ClassControl, CpuClassState, KhzSpan
from joulie_actuator.frequency_arbiter import Applied
from joulie_actuator.hardware import class_knobs
from joulie_actuator.hardware.cpufreq import CpuPolicy
from joulie_actuator.hardware.cpuinfo import HostCpus
from joulie_actuator.hardware.knob import HardwareFailure, Knob
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import CpuClassesReport
from joulie_core.containers.idset import Cpus
from joulie_core.control.cpu_frequency import FrequencyBound, Shortfall, ShortfallCause

#: Why a policy without an online CPU is not restored.
ABSENT: Final = frozenset({Reason.NO_DEVICE, Reason.NO_INTERFACE, Reason.DEVICE_LOST})
_BOUNDS: Final = {
    FrequencyBound.CEILING: ClassControl.MAX_KHZ,
    FrequencyBound.FLOOR: ClassControl.MIN_KHZ,
}
_CAUSES: Final = {
    ShortfallCause.SHARED_POLICY: HardwareFailure(
        Reason.OVERRULED, "CPUs with a higher limit share the frequency policy"
    ),
    ShortfallCause.ABOVE_CEILING: HardwareFailure(Reason.OVERRULED, "it is above the upper limit"),
    ShortfallCause.UNKNOWN_BASE: HardwareFailure(Reason.NO_INTERFACE, "no driver reports the base frequency"),
}


def report(cpus: HostCpus, classes: ClassAssignment, applied: Applied) -> CpuClassesReport:
    """Return the reply for what has been applied; reads the limits in force."""
    unmet = applied.shortages
    for policy in cpus.policies if classes else ():
        _add_shortfalls(policy, classes, applied, unmet)
    for each in applied.class_knobs:
        answer = applied.answers[each.knob.key]
        if isinstance(answer, HardwareFailure):
            unmet.add(each.class_name, each.control, answer, each.cpus)
    return CpuClassesReport(
        classes={name: _state(name, cpus, classes, applied, unmet) for name in classes.controls},
        not_restored=tuple(knob for knob in applied.restored if not knob.done and knob.reason not in ABSENT),
        message=results.join_messages(
            [*results.overwrite_messages(applied.answers.items()), *results.restore_messages(applied.restored)]
        ),
    )


def _add_shortfalls(policy: CpuPolicy, classes: ClassAssignment, applied: Applied, unmet: Shortages) -> None:
    """Add the frequency limits that a policy does not have."""
    decision = applied.decisions[policy.name]
    upper = applied.answers.get(policy.max_freq.key)
    lower = applied.answers.get(class_knobs.floor_request(policy.max_freq).key)
    for name, members in classes.members(policy.cpus).items():
        controls = classes.controls.get(name)
        if controls is None:
            continue
        for shortfall in decision.shortfalls:
            if shortfall.class_name == name:
                unmet.add(name, _control(shortfall), _CAUSES[shortfall.cause], members)
        if controls.max_khz is not None and isinstance(upper, HardwareFailure):
            unmet.add(name, ClassControl.MAX_KHZ, upper, members)
        if controls.min_khz is not None and isinstance(lower, HardwareFailure):
            unmet.add(name, ClassControl.MIN_KHZ, lower, members)


def _control(shortfall: Shortfall) -> ClassControl:
    return _BOUNDS[shortfall.bound]


def _state(name: str, cpus: HostCpus, classes: ClassAssignment, applied: Applied, unmet: Shortages) -> CpuClassState:
    members = classes.cpus[name] & Cpus(cpus.topology.core_of)
    policies = [policy for policy in cpus.policies if not members.isdisjoint(Cpus(policy.cpus))]
    throttled = [policy for policy in policies if applied.decisions[policy.name].throttled]
    return CpuClassState(
        cpus=str(members),
        ceiling_khz=_span([policy.max_freq for policy in policies]),
        floor_khz=_span([class_knobs.floor_request(policy.max_freq) for policy in policies]),
        throttled_cpus=sum(len(members & Cpus(policy.cpus)) for policy in throttled),
        unmet=unmet.of(name),
    )


def _span(knobs: Sequence[Knob]) -> KhzSpan | None:
    values = [value for knob in knobs if isinstance(value := knob.read(), int)]
    return KhzSpan(lowest=min(values), highest=max(values)) if values else None
