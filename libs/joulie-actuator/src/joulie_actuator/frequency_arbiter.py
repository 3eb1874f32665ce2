"""The one place that decides on the frequencies of CPUs, and on what else CPU classes control.

Several clients want something of the same knobs: the throttle and tuning of the power loop, CPU classes, and limits of
cores by the class of their containers. What each wants is kept here and combined at every request, so that one of them
can end without the others. Controls that nothing wants any more have their originals.

The order of writes is: governors, preferences, governor `performance`, then limits. Under that governor some drivers
force the preference, which must not be taken for an external value. A lower limit is written before the upper one
unless it is above the one in force: kernels before 5.3 refuse limits that cross.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from joulie_actuator import class_controls, results
from joulie_actuator.class_controls import NO_CLASSES, ClassAssignment, ClassKnob, Shortages
from joulie_actuator.core_limits import NO_CORE_LIMITS, CoreFrequencyLimits
from joulie_actuator.hardware import class_knobs, cpu_tuning, cpufreq
from joulie_actuator.hardware.class_knobs import GOVERNOR_CODES, IDLE_KEYS
from joulie_actuator.hardware.cpu_tuning import EPP_KEYS, UNCORE_KEYS
from joulie_actuator.hardware.cpufreq import CpuPolicy
from joulie_actuator.hardware.cpuinfo import HostCpus
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.knob import HardwareFailure, Knob
from joulie_actuator.hardware.knob_results import RestoredKnob, WrittenKnob
from joulie_actuator.hardware.sysfs import SysfsTree
from joulie_actuator.protocol import LeaseKind
from joulie_core.containers.idset import Cpus
from joulie_core.control.cpu_frequency import ClassifiedPolicy, FrequencyDecision, arbitrate

_PERFORMANCE: Final = GOVERNOR_CODES["performance"]

KnobAnswers: TypeAlias = Mapping[str, WrittenKnob | HardwareFailure]


@dataclass(frozen=True, slots=True)
class Tuning:
    """The optional controls of the power loop; None leaves one alone."""

    epp: str | None = None
    uncore_max_khz: int | None = None


NO_TUNING: Final = Tuning()


@dataclass(slots=True)
class Applied:
    """Outcome of a request: what it has written and restored."""

    answers: dict[str, WrittenKnob | HardwareFailure] = field(default_factory=dict)
    restored: list[RestoredKnob] = field(default_factory=list)
    #: By name of the frequency policy.
    decisions: Mapping[str, FrequencyDecision] = field(default_factory=dict)
    #: What the classes want besides frequency limits, and do not get.
    class_knobs: list[ClassKnob] = field(default_factory=list)
    shortages: Shortages = field(default_factory=Shortages)


class FrequencyArbiter:
    """Keeps what each client wants, and puts it in force. One caller at a time."""

    def __init__(self, tree: SysfsTree, min_freq_khz: int) -> None:
        self._tree = tree
        #: Maximum frequency of a throttled policy, raised to the lowest that it supports.
        self._min_freq_khz = min_freq_khz
        #: The last requested throttle that is in force.
        self.throttle_pct = 0.0
        self.tuning = NO_TUNING
        self.classes = NO_CLASSES
        self.core_limits = NO_CORE_LIMITS
        self._decisions: Mapping[str, FrequencyDecision] = {}

    def throttled_by_class(self, cpus: HostCpus) -> dict[str, int]:
        """Return how many CPUs of each class are throttled."""
        found = dict.fromkeys(self.classes.controls, 0)
        for policy in cpus.policies if self.classes else ():
            decision = self._decisions.get(policy.name)
            if decision is not None and decision.throttled:
                for name, members in self.classes.members(policy.cpus).items():
                    if name in found:
                        found[name] += len(members)
        return found

    def record_throttle(self, throttle_pct: float, decisions: Mapping[str, FrequencyDecision]) -> None:
        """Record what is in force."""
        self.throttle_pct, self._decisions = throttle_pct, decisions

    def set_throttle(self, writer: JournaledWriter, cpus: HostCpus, throttle_pct: float) -> Applied:
        """Write the frequency limits for a throttle; the caller records what is in force with `record_throttle`."""
        applied = Applied(decisions=self._decide(writer, cpus.policies, throttle_pct))
        self._limit(writer, cpus, applied)
        return applied

    def set_tuning(self, writer: JournaledWriter, cpus: HostCpus, tuning: Tuning) -> Applied:
        """Write preferences and uncore limits."""
        self.tuning = tuning
        applied = Applied(decisions=self._decide(writer, cpus.policies, self.throttle_pct))
        self._prefer(writer, cpus, applied)
        self._limit_uncore(writer, cpus, applied)
        return applied

    def set_classes(self, writer: JournaledWriter, cpus: HostCpus, classes: ClassAssignment) -> Applied:
        """Write all that CPU classes control."""
        self.classes = classes
        return self._apply(writer, cpus)

    def set_core_limits(self, writer: JournaledWriter, cpus: HostCpus, limits: CoreFrequencyLimits) -> Applied:
        """Write the frequency limits with those of cores by the class of their containers."""
        self.core_limits = limits
        applied = Applied(decisions=self._decide(writer, cpus.policies, self.throttle_pct))
        self._limit(writer, cpus, applied)
        self._decisions = applied.decisions
        return applied

    def keep(self, writer: JournaledWriter, cpus: HostCpus, leases: frozenset[LeaseKind]) -> Applied:
        """Forget what other leases hold: rewrite what is shared, and restore the rest."""
        if LeaseKind.POWER not in leases:
            self.throttle_pct, self.tuning = 0.0, NO_TUNING
        if LeaseKind.CLASSES not in leases:
            self.classes = NO_CLASSES
        if LeaseKind.CORE_LIMITS not in leases:
            self.core_limits = NO_CORE_LIMITS
        return self._apply(writer, cpus)

    def forget(self) -> None:
        """Forget what all clients want."""
        self.throttle_pct, self.tuning, self.classes = 0.0, NO_TUNING, NO_CLASSES
        self.core_limits = NO_CORE_LIMITS

    def knobs(self, cpus: HostCpus, keys: Iterable[str]) -> dict[str, Knob | HardwareFailure]:
        """Return the knobs among `keys` that the machine has."""
        keys = frozenset(keys)
        found: dict[str, Knob | HardwareFailure] = {key: cpus.requests[key] for key in keys & cpus.requests.keys()}
        found |= class_knobs.knobs_of(self._tree, cpus.requests, keys)
        if any(key.startswith(cpu_tuning.KEYS) for key in keys):
            found |= {knob.key: knob for knob in cpu_tuning.knobs(self._tree, cpus.policies)}
        return found

    def restore(
        self, writer: JournaledWriter, keys: frozenset[str], knobs: Mapping[str, Knob | HardwareFailure]
    ) -> tuple[RestoredKnob, ...]:
        """Restore knobs of any kind in an order in which no driver changes one that is still to be restored."""
        originals = writer.originals
        last = frozenset(key for key in keys if class_knobs.is_governor(key) and originals.get(key) == _PERFORMANCE)
        first = frozenset(filter(class_knobs.is_governor, keys)) - last
        preferences = frozenset(key for key in keys if key.startswith(EPP_KEYS))
        stages = (first, preferences, last, keys - first - preferences - last)
        return tuple(knob for stage in stages if stage for knob in results.restore(writer, stage, knobs))

    def _apply(self, writer: JournaledWriter, cpus: HostCpus) -> Applied:
        applied = Applied(decisions=self._decide(writer, cpus.policies, self.throttle_pct))
        self._prefer(writer, cpus, applied)
        self._limit(writer, cpus, applied)
        self._limit_uncore(writer, cpus, applied)
        online = Cpus(cpus.topology.core_of)
        idle = class_controls.idle_states(self._tree, online, self.classes, applied.shortages)
        self._put(writer, cpus, applied, idle, lambda key: key.startswith(IDLE_KEYS))
        class_controls.without_policy(cpus, online, self.classes, applied.shortages)
        self._decisions = applied.decisions
        return applied

    def _decide(
        self, writer: JournaledWriter, policies: Sequence[CpuPolicy], throttle_pct: float
    ) -> Mapping[str, FrequencyDecision]:
        return arbitrate(
            [self._classified(writer, policy) for policy in policies], throttle_pct, min_freq_khz=self._min_freq_khz
        )

    def _classified(self, writer: JournaledWriter, policy: CpuPolicy) -> ClassifiedPolicy:
        classes = self.classes.frequency_classes(policy)
        # An administrator's upper limit stays in force by itself; it has to be known for a lower one.
        bounded = any(each.minimum is not None for each in classes)
        found = writer.original(policy.max_freq) if bounded else None
        return ClassifiedPolicy(
            policy=policy.to_plan(),
            lowest_khz=policy.lowest_khz,
            highest_khz=policy.highest_khz,
            base_khz=policy.base_khz,
            classes=classes,
            administrator_khz=found if isinstance(found, int) else None,
            core_limit_khz=self.core_limits.of(policy.cpus),
        )

    def _prefer(self, writer: JournaledWriter, cpus: HostCpus, applied: Applied) -> None:
        """Write governors and energy performance preferences."""
        lacking, classes = applied.shortages, self.classes
        governors = class_controls.governors(cpus.policies, applied.decisions, classes, lacking)
        preferences = class_controls.preferences(cpus.policies, applied.decisions, classes, self.tuning.epp, lacking)
        originals = writer.originals
        wanted = {each.knob.key: each.value for each in governors}

        def is_performance(key: str) -> bool:
            return wanted.get(key, originals.get(key)) == _PERFORMANCE

        early = [each for each in governors if each.value != _PERFORMANCE]
        late = [each for each in governors if each.value == _PERFORMANCE]
        self._put(writer, cpus, applied, early, lambda key: class_knobs.is_governor(key) and not is_performance(key))
        self._put(writer, cpus, applied, preferences, lambda key: key.startswith(EPP_KEYS))
        self._put(writer, cpus, applied, late, lambda key: class_knobs.is_governor(key) and is_performance(key))

    def _limit(self, writer: JournaledWriter, cpus: HostCpus, applied: Applied) -> None:
        """Write frequency limits, both ends of each policy."""
        values = [value for policy in cpus.policies for value in _limits(policy, applied.decisions[policy.name])]
        keys = {knob.key for knob, _ in values}
        self._restore_others(writer, cpus, applied, keys, class_knobs.is_floor)
        applied.answers |= _answers(writer, values)
        self._restore_others(writer, cpus, applied, keys, cpufreq.is_limit)

    def _limit_uncore(self, writer: JournaledWriter, cpus: HostCpus, applied: Applied) -> None:
        limits = class_controls.uncore_limits(
            self._tree, cpus, self.classes, self.tuning.uncore_max_khz, applied.shortages
        )
        self._put(writer, cpus, applied, limits, lambda key: key.startswith(UNCORE_KEYS))

    def _put(
        self,
        writer: JournaledWriter,
        cpus: HostCpus,
        applied: Applied,
        values: Sequence[ClassKnob],
        of_kind: Callable[[str], bool],
    ) -> None:
        """Write knobs of one kind, and restore the others of the kind that are managed."""
        applied.class_knobs += values
        self._restore_others(writer, cpus, applied, {each.knob.key for each in values}, of_kind)
        applied.answers |= _answers(writer, [(each.knob, each.value) for each in values])

    def _restore_others(
        self,
        writer: JournaledWriter,
        cpus: HostCpus,
        applied: Applied,
        wanted: set[str],
        of_kind: Callable[[str], bool],
    ) -> None:
        gone = frozenset(key for key in writer.managed if of_kind(key) and key not in wanted)
        if gone:
            applied.restored += results.restore(writer, gone, self.knobs(cpus, gone))


def _limits(policy: CpuPolicy, decision: FrequencyDecision) -> list[tuple[Knob, int]]:
    """Return the limits of a policy in the order in which they never cross."""
    upper: list[tuple[Knob, int]] = [] if decision.limit_khz is None else [(policy.max_freq, decision.limit_khz)]
    if decision.floor_khz is None:
        return upper
    lower: list[tuple[Knob, int]] = [(class_knobs.floor_request(policy.max_freq), decision.floor_khz)]
    now_khz = policy.max_freq.read() if upper else None
    crosses = isinstance(now_khz, int) and decision.floor_khz > now_khz
    return [*upper, *lower] if crosses else [*lower, *upper]


def _answers(writer: JournaledWriter, values: Sequence[tuple[Knob, int]]) -> KnobAnswers:
    return {knob.key: answer for (knob, _), answer in zip(values, writer.set_all(values), strict=True)}
