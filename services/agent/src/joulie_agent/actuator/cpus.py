"""The CPUs of this machine: cap packages, throttle policies, read, describe, give back.

Hardware is looked for again once a minute, so that a driver that is loaded late or a CPU that is plugged in is found.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec

from joulie_agent.actuator import caps, verdicts
from joulie_agent.actuator.frequency_sampler import FrequencySampler
from joulie_agent.actuator.protocol import (
    CpuDescription,
    CpuReadings,
    DescribeCpu,
    PolicyReading,
    ReadCpu,
    Reply,
    RestoreReport,
    SetCpuCap,
    SetCpuTuning,
    SetThrottle,
)
from joulie_agent.actuator.tuning import tune
from joulie_agent.hardware import cpu_tuning, cpufreq, cpuinfo, hsmp, rapl, rapl_domains
from joulie_agent.hardware.cpufreq import CpuPolicy
from joulie_agent.hardware.cpuinfo import HostCpus
from joulie_agent.hardware.journaled_writer import JournaledWriter, WrittenKnob
from joulie_agent.hardware.knob import HardwareFailure, Knob
from joulie_agent.hardware.power_meter import PowerMeter, ZoneReading
from joulie_agent.hardware.rapl import RaplZone
from joulie_agent.hardware.sysfs import SysfsTree
from joulie_agent.outcome import ControlOutcome, failed
from joulie_agent.reasons import Reason
from joulie_core.control_result import ControlResult

DVFS: Final = "dvfs"
LOOK_EVERY_S: Final = 60.0
#: Why a policy is not restored that has no online CPU.
_AWAY: Final = frozenset({Reason.NO_DEVICE, Reason.NO_INTERFACE, Reason.DEVICE_LOST})

CpuRequest: TypeAlias = SetCpuCap | SetThrottle | SetCpuTuning | ReadCpu | DescribeCpu
_NO_ZONE: Final = "a package without a power zone"
_NO_POLICIES: Final = HardwareFailure(Reason.NO_INTERFACE, "no cpufreq policy")


@dataclass(slots=True)
class CpuHandler:
    """Carries out what is asked of the CPUs. One caller at a time."""

    tree: SysfsTree
    proc_root: str
    #: Or why nothing may be written.
    hands: JournaledWriter | HardwareFailure
    #: What a throttled policy is held to, in kHz, raised to what it can run at.
    min_freq_khz: int
    #: Monotonic seconds.
    clock: Callable[[], float]
    _cpus: HostCpus = field(init=False)
    _looked_at: float = field(init=False)
    _revision: int = field(init=False, default=0)
    _throttle_pct: float = field(init=False, default=0.0)
    _meter: PowerMeter = field(init=False, default_factory=PowerMeter)
    _rota: FrequencySampler = field(init=False)

    def __post_init__(self) -> None:
        self._rota = FrequencySampler(self.clock)
        self._look()

    def carry_out(self, request: CpuRequest) -> Reply:
        """Do what is asked."""
        if self.clock() - self._looked_at > LOOK_EVERY_S:
            self._look()
        match request:
            case SetCpuCap(cap_watts_per_package=cap_watts, release_throttle=release):
                done = self._cap(cap_watts)
                return self._release(done, throttles=True) if release else done
            case SetThrottle(throttle_pct=throttle_pct, release_caps=release):
                done = self._throttle(throttle_pct)
                return self._release(done, throttles=False) if release else done
            case SetCpuTuning():
                return tune(self.hands, request, cpu_tuning.knobs(self.tree, self._cpus.policies))
            case ReadCpu(frequencies=frequencies):
                return self._read(self._cpus.policies if frequencies else ())
            case DescribeCpu():
                return self._describe()

    def restore(self, keys: frozenset[str]) -> RestoreReport:
        """Give knobs back, by key."""
        if isinstance(self.hands, HardwareFailure):
            return RestoreReport(knobs=())
        self._look()
        if any(key.startswith(cpufreq.KEYS) for key in keys):
            self._throttle_pct = 0.0
        return RestoreReport(knobs=verdicts.give_back(self.hands, keys, self._knobs()))

    def _knobs(self) -> dict[str, Knob | HardwareFailure]:
        """Return all that is known, by key: also of policies without an online CPU, which keep our limit."""
        knobs: dict[str, Knob | HardwareFailure] = {
            knob.key: knob for zone in self._cpus.zones for knob in caps.zone_knobs(zone)
        }
        knobs.update(self._cpus.requests)
        if isinstance(self.hands, JournaledWriter) and any(key.startswith(cpu_tuning.KEYS) for key in self.hands.held):
            knobs |= {knob.key: knob for knob in cpu_tuning.knobs(self.tree, self._cpus.policies)}
        return knobs

    def _release(self, done: ControlOutcome, *, throttles: bool) -> ControlOutcome:
        """Lift all throttles, or all caps, now that something else is in force; one path at a time holds the CPUs.

        What cannot be lifted now is wanted by nobody from here on, so that whoever keeps the lease tries it again.
        """
        if done.result is not ControlResult.APPLIED or isinstance(self.hands, HardwareFailure):
            return done
        prefixes = (cpufreq.KEYS,) if throttles else (rapl.KEYS, hsmp.KEYS)
        keys = frozenset(key for key in self.hands.held if key.startswith(prefixes))
        freed = verdicts.give_back(self.hands, keys, self._knobs())
        if throttles:
            self._throttle_pct = 0.0
        stuck = [knob for knob in freed if not knob.done]
        said = [f"not released yet: {knob.key}: {knob.message}" for knob in stuck]
        said += verdicts.remarks(knob for knob in freed if knob.done)
        released = DVFS if throttles else caps.RAPL
        left = failed(released, stuck[0].reason or Reason.IO_ERROR, verdicts.join(said)) if stuck else None
        return msgspec.structs.replace(done, message=verdicts.join([done.message, *said]), unreleased=left)

    def _look(self) -> None:
        self._looked_at = self.clock()
        originals = {} if isinstance(self.hands, HardwareFailure) else self.hands.originals
        found = cpuinfo.discover(self.tree, self.proc_root, originals)
        if self._revision == 0 or found.facts != self._cpus.facts:
            self._revision += 1
        self._cpus = found

    def _cap(self, cap_watts: float) -> ControlOutcome:
        if isinstance(self.hands, HardwareFailure):
            return verdicts.refused(caps.RAPL, [self.hands])
        return caps.put_in_force(self.hands, self._cpus.zones, cap_watts, self._packages_without_zone())

    def _packages_without_zone(self) -> list[HardwareFailure]:
        """Packages that RAPL neither caps nor measures, where it does so for others; they have no name to go by."""
        covered = len({zone.package for zone in self._cpus.zones})
        lacking = self._cpus.facts.packages - covered
        return [HardwareFailure(Reason.NO_INTERFACE, _NO_ZONE)] * lacking if covered else []

    def _throttle(self, throttle_pct: float) -> ControlOutcome:
        if isinstance(self.hands, HardwareFailure):
            return verdicts.refused(DVFS, [self.hands])
        policies = self._cpus.policies
        if not policies:
            return verdicts.refused(DVFS, [_NO_POLICIES])
        slowed = cpufreq.plan_throttle(policies, throttle_pct)
        answers = self._slow([policy for policy in policies if policy.name in slowed], self.hands)
        planned = {policy.max_freq.key for policy in policies if policy.name in slowed}
        gone = frozenset(key for key in self.hands.held if key.startswith(cpufreq.KEYS) and key not in planned)
        freed = verdicts.give_back(self.hands, gone, self._knobs())
        refusals = [answer for _, answer in answers if isinstance(answer, HardwareFailure)]
        # A policy without an online CPU slows nothing down; it is restored when it returns.
        stuck = [refusal for refusal in verdicts.refusals(freed) if refusal.reason not in _AWAY]
        if len(refusals) == len(slowed) and (refusals or stuck):
            return verdicts.refused(DVFS, refusals + stuck, some_landed=bool(stuck))
        self._throttle_pct = throttle_pct
        said = verdicts.overwrote(answers) + verdicts.remarks(freed)
        if refusals:
            said.append(f"{len(refusals)} of {len(slowed)} policies refuse: {refusals[0].message}")
        return ControlOutcome(
            result=ControlResult.APPLIED,
            reason=Reason.THROTTLED if slowed else Reason.RESTORED,
            backend=DVFS,
            message=verdicts.join(said),
        )

    def _slow(
        self, policies: Sequence[CpuPolicy], hands: JournaledWriter
    ) -> list[tuple[str, WrittenKnob | HardwareFailure]]:
        answers = hands.set_all([(each.max_freq, each.throttled_khz(self.min_freq_khz)) for each in policies])
        return [(policy.name, answer) for policy, answer in zip(policies, answers, strict=True)]

    def _read(self, policies: Sequence[CpuPolicy]) -> CpuReadings:
        current_khz = self._rota.look(policies) if policies else {}
        return CpuReadings(
            revision=self._revision,
            zones=(
                *self._meter.sample(self._cpus.zones, self.clock()),
                *(ZoneReading(_NO_ZONE, refusal=refusal) for refusal in self._packages_without_zone()),
            ),
            throttle_pct=self._throttle_pct,
            policies=tuple(
                PolicyReading(
                    cpus=policy.cpus, current_khz=current_khz[policy.name], max_khz=_known(policy.max_freq.read())
                )
                for policy in policies
            ),
            overwritten=dict(self.hands.overwritten) if isinstance(self.hands, JournaledWriter) else {},
            domains=self._meter.sample_domains(self._cpus.domains, self.clock()),
            constraints=tuple(each for zone in self._cpus.zones for each in rapl_domains.read_constraints(zone)),
        )

    def _describe(self) -> CpuDescription:
        zones, policies = self._cpus.zones, self._cpus.policies
        energies = [_readable(zone) for zone in zones]
        return CpuDescription(
            revision=self._revision,
            facts=self._cpus.facts,
            reading=_first_refusal(energies, caps.NO_ZONES),
            capping=_first_refusal([zone.refusal() for zone in zones], caps.NO_ZONES),
            throttling=_first_refusal([policy.max_freq.probe_write() for policy in policies], _NO_POLICIES),
            journal=self.hands if isinstance(self.hands, HardwareFailure) else self.hands.journal_refusal,
        )


def _readable(zone: RaplZone) -> HardwareFailure | None:
    """Say why the power of a zone cannot be read."""
    refusals = [
        reading for reading in (zone.read_energy_uj(), zone.read_power_uw()) if isinstance(reading, HardwareFailure)
    ]
    return refusals[0] if len(refusals) > 1 else None


def _first_refusal(answers: Sequence[object], absent: HardwareFailure) -> HardwareFailure | None:
    """Return why it does not work everywhere; None where it does."""
    if not answers:
        return absent
    return next((answer for answer in answers if isinstance(answer, HardwareFailure)), None)


def _known(value: int | HardwareFailure) -> int | None:
    return None if isinstance(value, HardwareFailure) else value
