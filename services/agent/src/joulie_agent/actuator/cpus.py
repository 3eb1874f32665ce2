"""The CPUs of this machine: cap packages, throttle policies, read, describe, restore.

Discovery runs once a minute, so that a driver that is loaded late or a CPU that is plugged in is found.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec

from joulie_agent.actuator import cpu_caps, results
from joulie_agent.actuator.frequency_sampler import FrequencySampler
from joulie_agent.actuator.protocol import (
    CpuClassesReport,
    CpuDescription,
    CpuReadings,
    DescribeCpu,
    PolicyReading,
    ReadCpu,
    Reply,
    RestoreReport,
    SetCpuCap,
    SetCpuClasses,
    SetCpuTuning,
    SetThrottle,
)
from joulie_agent.actuator.tuning import tune
from joulie_agent.hardware import cpu_tuning, cpufreq, cpuinfo, hsmp, rapl
from joulie_agent.hardware.cpufreq import CpuPolicy
from joulie_agent.hardware.cpuinfo import HostCpus
from joulie_agent.hardware.journaled_writer import JournaledWriter, WrittenKnob
from joulie_agent.hardware.knob import HardwareFailure, Knob
from joulie_agent.hardware.power_meter import PowerMeter, ZoneReading
from joulie_agent.hardware.rapl import RaplZone
from joulie_agent.hardware.sysfs import SysfsTree
from joulie_agent.outcome import ControlOutcome, failed
from joulie_agent.reasons import Reason
from joulie_core.control.throttle_plan import plan_throttle, throttled_khz
from joulie_core.control_result import ControlResult

DVFS: Final = "dvfs"
DISCOVERY_INTERVAL_S: Final = 60.0
#: Why a policy without an online CPU is not restored.
_ABSENT: Final = frozenset({Reason.NO_DEVICE, Reason.NO_INTERFACE, Reason.DEVICE_LOST})

CpuRequest: TypeAlias = SetCpuCap | SetThrottle | SetCpuTuning | SetCpuClasses | ReadCpu | DescribeCpu
_NO_ZONE: Final = "a package without a power zone"
_NO_CLASSES: Final = HardwareFailure(Reason.NO_INTERFACE, "CPU classes are not applied yet")
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
    _discovered_at: float = field(init=False)
    _revision: int = field(init=False, default=0)
    _throttle_pct: float = field(init=False, default=0.0)
    _meter: PowerMeter = field(init=False, default_factory=PowerMeter)
    _sampler: FrequencySampler = field(init=False)

    def __post_init__(self) -> None:
        self._sampler = FrequencySampler(self.clock)
        self._discover()

    def execute(self, request: CpuRequest) -> Reply:
        """Execute a request."""
        if self.clock() - self._discovered_at > DISCOVERY_INTERVAL_S:
            self._discover()
        match request:
            case SetCpuCap(cap_watts_per_package=cap_watts, release_throttle=release):
                done = self._cap(cap_watts)
                return self._release(done, throttles=True) if release else done
            case SetThrottle(throttle_pct=throttle_pct, release_caps=release):
                done = self._throttle(throttle_pct)
                return self._release(done, throttles=False) if release else done
            case SetCpuTuning():
                return tune(self.writer, request, cpu_tuning.knobs(self.tree, self._cpus.policies))
            case SetCpuClasses():
                return CpuClassesReport(classes={}, failure=_NO_CLASSES)
            case ReadCpu(power_only=power_only):
                return self._read_power() if power_only else self._read_all()
            case DescribeCpu():
                return self._describe()

    def restore(self, keys: frozenset[str]) -> RestoreReport:
        """Restore knobs, by key."""
        if isinstance(self.writer, HardwareFailure):
            return RestoreReport(knobs=())
        self._discover()
        if any(key.startswith(cpufreq.KEYS) for key in keys):
            self._throttle_pct = 0.0
        return RestoreReport(knobs=results.restore(self.writer, keys, self._knobs()))

    def _knobs(self) -> dict[str, Knob | HardwareFailure]:
        """Return all known knobs, by key: also of policies without an online CPU, which keep a limit of Joulie."""
        knobs: dict[str, Knob | HardwareFailure] = {
            knob.key: knob for zone in self._cpus.zones for knob in cpu_caps.zone_knobs(zone)
        }
        knobs.update(self._cpus.requests)
        if isinstance(self.writer, JournaledWriter) and any(
            key.startswith(cpu_tuning.KEYS) for key in self.writer.managed
        ):
            knobs |= {knob.key: knob for knob in cpu_tuning.knobs(self.tree, self._cpus.policies)}
        return knobs

    def _release(self, done: ControlOutcome, *, throttles: bool) -> ControlOutcome:
        """Lift all throttles, or all caps, now that the other is in force: one control at a time limits the CPUs.

        What cannot be lifted now is unclaimed from here on, so that the executor retries it.
        """
        if done.result is not ControlResult.APPLIED or isinstance(self.writer, HardwareFailure):
            return done
        prefixes = (cpufreq.KEYS,) if throttles else (rapl.KEYS, hsmp.KEYS)
        keys = frozenset(key for key in self.writer.managed if key.startswith(prefixes))
        restored = results.restore(self.writer, keys, self._knobs())
        if throttles:
            self._throttle_pct = 0.0
        stuck = [knob for knob in restored if not knob.done]
        messages = [f"not released yet: {knob.key}: {knob.message}" for knob in stuck]
        messages += results.restore_messages(knob for knob in restored if knob.done)
        released = DVFS if throttles else cpu_caps.RAPL
        left = failed(released, stuck[0].reason or Reason.IO_ERROR, results.join_messages(messages)) if stuck else None
        return msgspec.structs.replace(done, message=results.join_messages([done.message, *messages]), unreleased=left)

    def _discover(self) -> None:
        self._discovered_at = self.clock()
        originals = {} if isinstance(self.writer, HardwareFailure) else self.writer.originals
        found = cpuinfo.discover(self.tree, self.proc_root, originals)
        if self._revision == 0 or found.facts != self._cpus.facts:
            self._revision += 1
        self._cpus = found

    def _cap(self, cap_watts: float) -> ControlOutcome:
        if isinstance(self.writer, HardwareFailure):
            return results.failed(cpu_caps.RAPL, [self.writer])
        return cpu_caps.set_caps(self.writer, self._cpus.zones, cap_watts, self._packages_without_zone())

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
        slowed = plan_throttle([policy.to_plan() for policy in policies], throttle_pct)
        answers = self._slow([policy for policy in policies if policy.name in slowed], self.writer)
        planned = {policy.max_freq.key for policy in policies if policy.name in slowed}
        gone = frozenset(key for key in self.writer.managed if key.startswith(cpufreq.KEYS) and key not in planned)
        restored = results.restore(self.writer, gone, self._knobs())
        failures = [answer for _, answer in answers if isinstance(answer, HardwareFailure)]
        # A policy without an online CPU limits nothing; it is restored when it returns.
        stuck = [failure for failure in results.failures(restored) if failure.reason not in _ABSENT]
        if len(failures) == len(slowed) and (failures or stuck):
            return results.failed(DVFS, failures + stuck, some_applied=bool(stuck))
        self._throttle_pct = throttle_pct
        messages = results.overwrite_messages(answers) + results.restore_messages(restored)
        if failures:
            messages.append(f"{len(failures)} of {len(slowed)} policies failed: {failures[0].message}")
        return ControlOutcome(
            result=ControlResult.APPLIED,
            reason=Reason.THROTTLED if slowed else Reason.RESTORED,
            backend=DVFS,
            message=results.join_messages(messages),
        )

    def _slow(
        self, policies: Sequence[CpuPolicy], writer: JournaledWriter
    ) -> list[tuple[str, WrittenKnob | HardwareFailure]]:
        answers = writer.set_all([(policy.max_freq, self._throttled_khz(policy)) for policy in policies])
        return [(policy.name, answer) for policy, answer in zip(policies, answers, strict=True)]

    def _throttled_khz(self, policy: CpuPolicy) -> int:
        return throttled_khz(policy.highest_khz, lowest_khz=policy.lowest_khz, min_freq_khz=self.min_freq_khz)

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
            throttle_pct=self._throttle_pct,
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
            journal=self.writer if isinstance(self.writer, HardwareFailure) else self.writer.journal_failure,
        )


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
