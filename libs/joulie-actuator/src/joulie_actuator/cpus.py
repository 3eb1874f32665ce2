"""The CPUs of this machine: cap packages, throttle policies, apply CPU classes, read, describe, restore.

Discovery runs at the first request, in the thread that executes it, since a file may block; then once a minute, so that
a driver that is loaded late or a CPU that is plugged in is found.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec

from joulie_actuator import class_report, core_limit_report, cpu_caps, results
from joulie_actuator.class_abilities import class_abilities
from joulie_actuator.class_controls import ClassAssignment
from joulie_actuator.class_report import ABSENT
from joulie_actuator.core_limits import CoreFrequencyLimits
from joulie_actuator.frequency_arbiter import FrequencyArbiter, Tuning
from joulie_actuator.frequency_sampler import FrequencySampler
from joulie_actuator.hardware import cpuinfo, hsmp, rapl
from joulie_actuator.hardware.cpuinfo import HostCpus
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.knob import HardwareFailure, Knob
from joulie_actuator.hardware.knob_results import RestoredKnob
from joulie_actuator.hardware.power_meter import PowerMeter, ZoneReading
from joulie_actuator.hardware.rapl import RaplZone
from joulie_actuator.hardware.sysfs import SysfsTree, parse_cpu_list
from joulie_actuator.hardware.topology import CPU_ROOT
from joulie_actuator.outcome import ControlOutcome, failed
from joulie_actuator.protocol import (
    DescribeCpu,
    LeaseKind,
    ReadCpu,
    SetCoreLimits,
    SetCpuCap,
    SetCpuClasses,
    SetCpuTuning,
    SetThrottle,
)
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import (
    CoreLimitsReport,
    CpuClassesReport,
    CpuDescription,
    CpuReadings,
    PolicyReading,
    Reply,
    RestoreReport,
)
from joulie_actuator.tuning import TUNING, tuning_outcome
from joulie_core.control_result import ControlResult

DVFS: Final = "dvfs"
DISCOVERY_INTERVAL_S: Final = 60.0

CpuRequest: TypeAlias = SetCpuCap | SetThrottle | SetCpuTuning | SetCpuClasses | SetCoreLimits | ReadCpu | DescribeCpu
_NO_ZONE: Final = "a package without a power zone"
_NO_POLICIES: Final = HardwareFailure(Reason.NO_INTERFACE, "no cpufreq policy")


@dataclass(slots=True)
class CpuHandler:
    """Executes the requests for the CPUs. One caller at a time."""

    tree: SysfsTree
    proc_root: str
    #: Or why nothing may be written.
    writer: JournaledWriter | HardwareFailure
    #: Maximum frequency of a throttled policy, raised to the lowest that it supports.
    min_freq_khz: int
    #: Monotonic seconds.
    clock: Callable[[], float]
    _cpus: HostCpus = field(init=False)
    _discovered_at: float = field(init=False, default=0.0)
    #: Of what was discovered; 0 before that.
    _revision: int = field(init=False, default=0)
    _arbiter: FrequencyArbiter = field(init=False)
    _meter: PowerMeter = field(init=False, default_factory=PowerMeter)
    _sampler: FrequencySampler = field(init=False)

    def __post_init__(self) -> None:
        self._sampler = FrequencySampler(self.clock)
        self._arbiter = FrequencyArbiter(self.tree, self.min_freq_khz)

    def execute(self, request: CpuRequest) -> Reply:
        """Execute a request."""
        if self._is_stale():
            self._discover()
        match request:
            case SetCpuCap(cap_watts_per_package=cap_watts_per_package, release_throttle=release):
                done = self._cap(cap_watts_per_package)
                return self._release(done, throttles=True) if release else done
            case SetThrottle(throttle_pct=throttle_pct, release_caps=release):
                done = self._throttle(throttle_pct)
                return self._release(done, throttles=False) if release else done
            case SetCpuTuning():
                return self._tune(Tuning(request.epp, request.uncore_max_khz))
            case SetCpuClasses(classes=classes):
                return self._classify(ClassAssignment(classes))
            case SetCoreLimits(limits=limits):
                return self._limit_cores(CoreFrequencyLimits(limits))
            case ReadCpu() | DescribeCpu():
                return self._look(request)

    def _look(self, request: ReadCpu | DescribeCpu) -> Reply:
        if isinstance(request, DescribeCpu):
            return self._describe()
        return self._read_power() if request.power_only else self._read_all()

    def restore(self, keys: frozenset[str]) -> RestoreReport:
        """Restore knobs, by key; with all that are managed, what the clients want ends."""
        if isinstance(self.writer, HardwareFailure):
            return RestoreReport(knobs=())
        self._discover()
        if keys >= self.writer.managed:
            self._arbiter.forget()
        return RestoreReport(knobs=self._restore(self.writer, keys))

    def keep(self, leases: frozenset[LeaseKind]) -> RestoreReport:
        """End what other leases hold: restore it, except where one of `leases` wants another value."""
        if isinstance(self.writer, HardwareFailure):
            return RestoreReport(knobs=())
        self._discover()
        restored = self._arbiter.keep(self.writer, self._cpus, leases).restored
        if LeaseKind.POWER not in leases:
            restored += self._restore(self.writer, _caps(self.writer.managed))
        return RestoreReport(knobs=tuple(restored))

    def _restore(self, writer: JournaledWriter, keys: frozenset[str]) -> tuple[RestoredKnob, ...]:
        """Restore knobs that the machine has, also of policies without an online CPU, which keep a limit of Joulie."""
        knobs: dict[str, Knob | HardwareFailure] = {
            knob.key: knob for zone in self._cpus.zones for knob in cpu_caps.zone_knobs(zone)
        }
        return self._arbiter.restore(writer, keys, knobs | self._arbiter.knobs(self._cpus, keys))

    def _release(self, done: ControlOutcome, *, throttles: bool) -> ControlOutcome:
        """Lift all throttles, or all caps, now that the other is in force: one control at a time limits the CPUs.

        What cannot be lifted now is unclaimed from here on, so that the executor retries it. CPU classes stay.
        """
        if done.result is not ControlResult.APPLIED or isinstance(self.writer, HardwareFailure):
            return done
        stuck: list[tuple[str, HardwareFailure]] = []
        if throttles:
            lifted = self._arbiter.set_throttle(self.writer, self._cpus, 0.0)
            self._arbiter.record_throttle(0.0, lifted.decisions)
            restored: Sequence[RestoredKnob] = lifted.restored
            stuck += [(key, answer) for key, answer in lifted.answers.items() if isinstance(answer, HardwareFailure)]
        else:
            restored = self._restore(self.writer, _caps(self.writer.managed))
        stuck += [(knob.key, knob.failure) for knob in restored if knob.failure is not None]
        messages = [f"not released yet: {key}: {failure.message}" for key, failure in stuck]
        messages += results.restore_messages(knob for knob in restored if knob.done)
        released = DVFS if throttles else cpu_caps.RAPL
        left = failed(released, stuck[0][1].reason, results.join_messages(messages)) if stuck else None
        return msgspec.structs.replace(done, message=results.join_messages([done.message, *messages]), unreleased=left)

    def _is_stale(self) -> bool:
        """Return whether nothing was discovered yet, or something may have changed since."""
        if self._revision == 0 or self.clock() - self._discovered_at > DISCOVERY_INTERVAL_S:
            return True
        return any(zone.moved for zone in self._cpus.zones)

    def _discover(self) -> None:
        self._discovered_at = self.clock()
        originals = {} if isinstance(self.writer, HardwareFailure) else self.writer.originals
        found = cpuinfo.discover(self.tree, self.proc_root, originals)
        if self._revision == 0 or found.facts != self._cpus.facts:
            self._revision += 1
        self._cpus = found

    def _cap(self, cap_watts_per_package: float) -> ControlOutcome:
        if isinstance(self.writer, HardwareFailure):
            return results.failed(cpu_caps.RAPL, [self.writer])
        return cpu_caps.set_caps(self.writer, self._cpus.zones, cap_watts_per_package, self._packages_without_zone())

    def _packages_without_zone(self) -> list[HardwareFailure]:
        """Return a failure for each package that RAPL neither caps nor measures while it does so for others."""
        covered = len({zone.package for zone in self._cpus.zones})
        lacking = self._cpus.facts.packages - covered
        return [HardwareFailure(Reason.NO_INTERFACE, _NO_ZONE)] * lacking if covered else []

    def _throttle(self, throttle_pct: float) -> ControlOutcome:
        if isinstance(self.writer, HardwareFailure):
            return results.failed(DVFS, [self.writer])
        policies = self._cpus.policies
        if not policies:
            return results.failed(DVFS, [_NO_POLICIES])
        applied = self._arbiter.set_throttle(self.writer, self._cpus, throttle_pct)
        slowed = [policy for policy in policies if applied.decisions[policy.name].throttled]
        answers = [(policy.name, applied.answers[policy.max_freq.key]) for policy in slowed]
        failures = [answer for _, answer in answers if isinstance(answer, HardwareFailure)]
        # A policy without an online CPU limits nothing; it is restored when it returns.
        stuck = [failure for failure in results.failures(applied.restored) if failure.reason not in ABSENT]
        if len(failures) == len(slowed) and (failures or stuck):
            return results.failed(DVFS, failures + stuck, some_applied=bool(stuck))
        self._arbiter.record_throttle(throttle_pct, applied.decisions)
        messages = results.overwrite_messages(answers) + results.restore_messages(applied.restored)
        if failures:
            messages.append(f"{len(failures)} of {len(slowed)} policies failed: {failures[0].message}")
        return ControlOutcome(
            result=ControlResult.APPLIED,
            reason=Reason.THROTTLED if slowed else Reason.RESTORED,
            backend=DVFS,
            message=results.join_messages(messages),
        )

    def _tune(self, tuning: Tuning) -> ControlOutcome:
        if isinstance(self.writer, HardwareFailure):
            return results.failed(TUNING, [self.writer])
        return tuning_outcome(tuning, self._arbiter.set_tuning(self.writer, self._cpus, tuning))

    def _classify(self, classes: ClassAssignment) -> CpuClassesReport:
        if isinstance(self.writer, HardwareFailure):
            return CpuClassesReport(classes={}, failure=self.writer)
        if self._plugged():
            self._discover()
        applied = self._arbiter.set_classes(self.writer, self._cpus, classes)
        return class_report.report(self._cpus, classes, applied)

    def _limit_cores(self, limits: CoreFrequencyLimits) -> CoreLimitsReport:
        if isinstance(self.writer, HardwareFailure):
            return CoreLimitsReport(failure=self.writer)
        if self._plugged():
            self._discover()
        applied = self._arbiter.set_core_limits(self.writer, self._cpus, limits)
        return core_limit_report.report(self._cpus, limits, applied)

    def _plugged(self) -> bool:
        """Return whether CPUs have come or gone since the last discovery."""
        online = self.tree.read_text(f"{CPU_ROOT}/online")
        return isinstance(online, str) and frozenset(parse_cpu_list(online)) != self._cpus.topology.core_of.keys()

    def _read_all(self) -> CpuReadings:
        policies = self._cpus.policies
        current_khz = self._sampler.sample(policies)
        constraints = (constraint.read() for constraint in self._cpus.constraints)
        return msgspec.structs.replace(
            self._read_power(),
            policies=tuple(
                PolicyReading(
                    cpus=policy.cpus, current_khz=current_khz[policy.name], max_khz=_known(policy.max_freq.read())
                )
                for policy in policies
            ),
            domains=self._meter.sample_domains(self._cpus.domains, self.clock()),
            constraints=tuple(reading for reading in constraints if reading is not None),
        )

    def _read_power(self) -> CpuReadings:
        return CpuReadings(
            revision=self._revision,
            zones=(
                *self._meter.sample(self._cpus.zones, self.clock()),
                *(ZoneReading(_NO_ZONE, failure=failure) for failure in self._packages_without_zone()),
            ),
            throttle_pct=self._arbiter.throttle_pct,
            throttled_by_class=self._arbiter.throttled_by_class(self._cpus),
            overwritten=dict(self.writer.overwritten) if isinstance(self.writer, JournaledWriter) else {},
        )

    def _describe(self) -> CpuDescription:
        zones, policies = self._cpus.zones, self._cpus.policies
        energies = [_readable(zone) for zone in zones]
        return CpuDescription(
            revision=self._revision,
            facts=self._cpus.facts,
            reading=_first_failure(energies, cpu_caps.NO_ZONES),
            capping=_first_failure([zone.failure() for zone in zones], cpu_caps.NO_ZONES),
            throttling=_first_failure([policy.max_freq.probe_write() for policy in policies], _NO_POLICIES),
            class_controls=class_abilities(self.tree, self._cpus),
            journal=self.writer if isinstance(self.writer, HardwareFailure) else self.writer.journal_failure,
        )


def _caps(keys: Iterable[str]) -> frozenset[str]:
    """Return the keys of power caps."""
    return frozenset(key for key in keys if key.startswith((rapl.KEYS, hsmp.KEYS)))


def _readable(zone: RaplZone) -> HardwareFailure | None:
    """Return why the power of a zone cannot be read; None where it can."""
    failures = [
        reading for reading in (zone.read_energy_uj(), zone.read_power_uw()) if isinstance(reading, HardwareFailure)
    ]
    return failures[0] if len(failures) > 1 else None


def _first_failure(answers: Sequence[object], absent: HardwareFailure) -> HardwareFailure | None:
    """Return the first failure; None where all succeeded."""
    if not answers:
        return absent
    return next((answer for answer in answers if isinstance(answer, HardwareFailure)), None)


def _known(value: int | HardwareFailure) -> int | None:
    return None if isinstance(value, HardwareFailure) else value
