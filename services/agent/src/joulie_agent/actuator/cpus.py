"""The CPUs of this machine: cap packages, throttle policies, read, describe, give back.

Promises that a cap which one package refuses stays in force on the others, and says so: a partial cap is lifted by
whoever gives back, not by surprise. Hardware is looked for again once a minute, so that a driver that is loaded late
or a CPU that is plugged in is found.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec

from joulie_agent.actuator import verdicts
from joulie_agent.actuator.frequencies import FrequencyRota
from joulie_agent.actuator.protocol import (
    CpuDescription,
    CpuReadings,
    DescribeCpu,
    Done,
    GivenBackReport,
    PolicyReading,
    ReadCpu,
    Reply,
    SetCpuCap,
    SetThrottle,
    Verdict,
)
from joulie_agent.hardware import cpufreq, cpuinfo, hsmp, rapl, rapl_domains
from joulie_agent.hardware.cpufreq import CpuPolicy
from joulie_agent.hardware.cpuinfo import HostCpus
from joulie_agent.hardware.hands import Hands, Restored, Written
from joulie_agent.hardware.knob import Knob, Refusal
from joulie_agent.hardware.power_meter import PowerMeter, ZoneReading
from joulie_agent.hardware.rapl import UW_PER_WATT, RaplZone, ZoneCap
from joulie_agent.hardware.sysfs import SysfsKnob, SysfsTree
from joulie_agent.reasons import Reason

RAPL: Final = "rapl"
DVFS: Final = "dvfs"
LOOK_EVERY_S: Final = 60.0
#: Why a policy is not restored that has no online CPU.
_AWAY: Final = frozenset({Reason.NO_DEVICE, Reason.NO_INTERFACE, Reason.DEVICE_LOST})

CpuRequest: TypeAlias = SetCpuCap | SetThrottle | ReadCpu | DescribeCpu
Answers: TypeAlias = Sequence[tuple[ZoneCap, Written | Refusal]]
_NO_ZONES: Final = Refusal(Reason.NO_INTERFACE, "no RAPL package zone")
_NO_ZONE: Final = "a package without a power zone"
_NO_POLICIES: Final = Refusal(Reason.NO_INTERFACE, "no cpufreq policy")


@dataclass(slots=True)
class CpuPart:
    """Carries out what is asked of the CPUs. One caller at a time."""

    tree: SysfsTree
    proc_root: str
    #: Or why nothing may be written.
    hands: Hands | Refusal
    #: What a throttled policy is held to, in kHz, raised to what it can run at.
    min_freq_khz: int
    #: Monotonic seconds.
    clock: Callable[[], float]
    _cpus: HostCpus = field(init=False)
    _looked_at: float = field(init=False)
    _revision: int = field(init=False, default=0)
    _throttle_pct: float = field(init=False, default=0.0)
    _meter: PowerMeter = field(init=False, default_factory=PowerMeter)
    _rota: FrequencyRota = field(init=False)

    def __post_init__(self) -> None:
        self._rota = FrequencyRota(self.clock)
        self._look()

    def carry_out(self, request: CpuRequest) -> Reply:
        """Do what is asked."""
        if self.clock() - self._looked_at > LOOK_EVERY_S:
            self._look()
        match request:
            case SetCpuCap(cap_uw_per_package=cap_uw, release_throttle=release):
                done = self._cap(cap_uw / UW_PER_WATT)
                return self._release(done, throttles=True) if release else done
            case SetThrottle(throttle_pct=throttle_pct, release_caps=release):
                done = self._throttle(throttle_pct)
                return self._release(done, throttles=False) if release else done
            case ReadCpu(frequencies=frequencies):
                return self._read(self._cpus.policies if frequencies else ())
            case DescribeCpu():
                return self._describe()

    def restore(self, keys: frozenset[str]) -> GivenBackReport:
        """Give knobs back, by key."""
        if isinstance(self.hands, Refusal):
            return GivenBackReport(knobs=())
        self._look()
        if any(key.startswith(cpufreq.KEYS) for key in keys):
            self._throttle_pct = 0.0
        return GivenBackReport(knobs=verdicts.give_back(self.hands, keys, self._knobs()))

    def _knobs(self) -> dict[str, Knob | Refusal]:
        """Return all that is known, by key: also of policies without an online CPU, which keep our limit."""
        knobs: dict[str, Knob | Refusal] = {knob.key: knob for zone in self._cpus.zones for knob in _zone_knobs(zone)}
        knobs.update(self._cpus.requests)
        return knobs

    def _release(self, done: Done, *, throttles: bool) -> Done:
        """Lift all throttles, or all caps, now that something else is in force; one path at a time holds the CPUs.

        What cannot be lifted now is wanted by nobody from here on, so that whoever keeps the lease tries it again.
        """
        if done.verdict is not Verdict.APPLIED or isinstance(self.hands, Refusal):
            return done
        prefixes = (cpufreq.KEYS,) if throttles else (rapl.KEYS, hsmp.KEYS)
        keys = frozenset(key for key in self.hands.held if key.startswith(prefixes))
        freed = verdicts.give_back(self.hands, keys, self._knobs())
        if throttles:
            self._throttle_pct = 0.0
        stuck = [knob for knob in freed if not knob.done]
        said = [f"not released yet: {knob.key}: {knob.message}" for knob in stuck]
        said += verdicts.remarks(knob for knob in freed if knob.done)
        left = Refusal(stuck[0].reason or Reason.IO_ERROR, verdicts.join(said)) if stuck else None
        return msgspec.structs.replace(done, message=verdicts.join([done.message, *said]), unreleased=left)

    def _look(self) -> None:
        self._looked_at = self.clock()
        originals = {} if isinstance(self.hands, Refusal) else self.hands.originals
        found = cpuinfo.discover(self.tree, self.proc_root, originals)
        if self._revision == 0 or found.facts != self._cpus.facts:
            self._revision += 1
        self._cpus = found

    def _cap(self, cap_watts: float) -> Done:
        if isinstance(self.hands, Refusal):
            return verdicts.refused(RAPL, [self.hands])
        caps = rapl.split_cap(self._cpus.zones, cap_watts)
        backend = next((cap.zone.backend for cap in caps), RAPL)
        without = [zone.power_limit for zone in self._cpus.zones if isinstance(zone.power_limit, Refusal)]
        if without or not caps:
            return verdicts.refused(RAPL, without or [_NO_ZONES])
        bounded = [cap for cap in caps if not cap.unlimited]
        answers = list(zip(bounded, self.hands.set_all([(cap.knob, cap.limit_uw) for cap in bounded]), strict=True))
        self._switch_on(answers)
        answers += self._unlimit([cap for cap in caps if cap.unlimited])
        short = [(cap, refusal) for cap, answer in answers if (refusal := self._judge(cap, answer))]
        if short or self._packages_without_zone():
            return self._fell_short(answers, short)
        said = verdicts.overwrote((cap.knob.key, answer) for cap, answer in answers if not cap.unlimited)
        clamped = [cap for cap in bounded if cap.clamped]
        said += [f"{cap.zone.name} is held at {_watts(cap.limit_uw)} by its range" for cap in clamped]
        said += [_no_limit(cap, cap_watts) for cap in caps if cap.unlimited]
        reason = Reason.CLAMPED if clamped else Reason.CAPPED
        return Done(
            verdict=Verdict.APPLIED,
            reason=reason if bounded else Reason.RESTORED,
            backend=backend,
            message=verdicts.join(said),
            enforced_watts=_highest_package_watts(answers),
        )

    def _unlimit(self, caps: Sequence[ZoneCap]) -> list[tuple[ZoneCap, Written | Refusal]]:
        """Restore the zones that no limit is wanted of."""
        assert isinstance(self.hands, Hands)
        freed = {knob.key: knob for knob in self.hands.restore(knob for cap in caps for knob in _zone_knobs(cap.zone))}
        answers: list[tuple[ZoneCap, Written | Refusal]] = []
        for cap in caps:
            of_zone = [freed[knob.key] for knob in _zone_knobs(cap.zone) if knob.key in freed]
            stuck = _refusals(of_zone)
            value = stuck[0] if stuck else cap.knob.read()
            changed = bool(of_zone)
            answers.append((cap, value if isinstance(value, Refusal) else Written(value, changed, foreign=True)))
        return answers

    def _judge(self, cap: ZoneCap, answer: Written | Refusal) -> Refusal | None:
        if isinstance(answer, Refusal):
            return answer
        if answer.foreign:
            return None
        assert isinstance(self.hands, Hands)
        original = self.hands.original(cap.knob) if answer.value != cap.limit_uw else None
        return rapl.check_cap(cap, answer.value, None if isinstance(original, Refusal) else original)

    def _fell_short(self, answers: Answers, short: Sequence[tuple[ZoneCap, Refusal]]) -> Done:
        """Say what is in force where not every package is held at the cap."""
        refusals = [refusal for _, refusal in short]
        backend = answers[0][0].zone.backend
        if len(short) == len(answers) and not any(each.reason is Reason.HELD_BY_FIRMWARE for each in refusals):
            return verdicts.refused(backend, refusals)
        missing = self._packages_without_zone()
        if not missing and all(refusal.reason is Reason.HELD_BY_FIRMWARE for refusal in refusals):
            held_watts = _highest_package_watts(answers)
            return verdicts.partly(backend, Reason.HELD_BY_FIRMWARE, refusals, enforced_watts=held_watts)
        packages = {cap.zone.package for cap, _ in answers}
        capped = len(packages - {cap.zone.package for cap, _ in short})
        said = f"{capped} of {len(packages) + len(missing)} packages capped"
        return verdicts.partly(backend, Reason.PARTLY_APPLIED, [*refusals, *missing], said)

    def _packages_without_zone(self) -> list[Refusal]:
        """Packages that RAPL neither caps nor measures, where it does so for others; they have no name to go by."""
        covered = len({zone.package for zone in self._cpus.zones})
        lacking = self._cpus.facts.packages - covered
        return [Refusal(Reason.NO_INTERFACE, _NO_ZONE)] * lacking if covered else []

    def _switch_on(self, answers: Answers) -> None:
        """Enforce limits that are set and switched off; whether that worked is seen where the cap is judged."""
        assert isinstance(self.hands, Hands)
        switches = [cap.zone.enable for cap, answer in answers if isinstance(answer, Written)]
        off = [switch for switch in switches if switch is not None and switch.read() == 0]
        self.hands.set_all([(switch, 1) for switch in off])

    def _throttle(self, throttle_pct: float) -> Done:
        if isinstance(self.hands, Refusal):
            return verdicts.refused(DVFS, [self.hands])
        policies = self._cpus.policies
        if not policies:
            return verdicts.refused(DVFS, [_NO_POLICIES])
        slowed = cpufreq.plan_throttle(policies, throttle_pct)
        answers = self._slow([policy for policy in policies if policy.name in slowed], self.hands)
        planned = {policy.max_freq.key for policy in policies if policy.name in slowed}
        gone = frozenset(key for key in self.hands.held if key.startswith(cpufreq.KEYS) and key not in planned)
        freed = verdicts.give_back(self.hands, gone, self._knobs())
        refusals = [answer for _, answer in answers if isinstance(answer, Refusal)]
        # A policy without an online CPU slows nothing down; it is restored when it returns.
        stuck = [refusal for refusal in _refusals(freed) if refusal.reason not in _AWAY]
        if len(refusals) == len(slowed) and (refusals or stuck):
            return verdicts.refused(DVFS, refusals + stuck, some_landed=bool(stuck))
        self._throttle_pct = throttle_pct
        said = verdicts.overwrote(answers) + verdicts.remarks(freed)
        if refusals:
            said.append(f"{len(refusals)} of {len(slowed)} policies refuse: {refusals[0].message}")
        return Done(
            verdict=Verdict.APPLIED,
            reason=Reason.THROTTLED if slowed else Reason.RESTORED,
            backend=DVFS,
            message=verdicts.join(said),
        )

    def _slow(self, policies: Sequence[CpuPolicy], hands: Hands) -> list[tuple[str, Written | Refusal]]:
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
            overwritten=dict(self.hands.overwritten) if isinstance(self.hands, Hands) else {},
            domains=self._meter.sample_domains(self._cpus.domains, self.clock()),
            constraints=tuple(each for zone in self._cpus.zones for each in rapl_domains.read_constraints(zone)),
        )

    def _describe(self) -> CpuDescription:
        zones, policies = self._cpus.zones, self._cpus.policies
        energies = [_readable(zone) for zone in zones]
        return CpuDescription(
            revision=self._revision,
            facts=self._cpus.facts,
            reading=_first_refusal(energies, _NO_ZONES),
            capping=_first_refusal([zone.refusal() for zone in zones], _NO_ZONES),
            throttling=_first_refusal([policy.max_freq.probe_write() for policy in policies], _NO_POLICIES),
            journal=self.hands if isinstance(self.hands, Refusal) else self.hands.journal_refusal,
        )


def _zone_knobs(zone: RaplZone) -> list[Knob]:
    knobs = (zone.power_limit, zone.enable)
    return [knob for knob in knobs if isinstance(knob, SysfsKnob)]


def _readable(zone: RaplZone) -> Refusal | None:
    """Say why the power of a zone cannot be read."""
    refusals = [reading for reading in (zone.read_energy_uj(), zone.read_power_uw()) if isinstance(reading, Refusal)]
    return refusals[0] if len(refusals) > 1 else None


def _no_limit(cap: ZoneCap, cap_watts: float) -> str:
    end = _watts(cap.knob.limits.high)
    return f"no limit is set on {cap.zone.name}: {cap_watts:g} W per package is not below the end of its range, {end}"


def _highest_package_watts(answers: Answers) -> float:
    per_package: Counter[int] = Counter()
    for cap, answer in answers:
        if isinstance(answer, Written):
            per_package[cap.zone.package] += answer.value
    return max(per_package.values()) / UW_PER_WATT


def _refusals(knobs: Iterable[Restored]) -> list[Refusal]:
    """Return why knobs were not restored."""
    return [Refusal(knob.reason, knob.message) for knob in knobs if knob.reason is not None]


def _first_refusal(answers: Sequence[object], absent: Refusal) -> Refusal | None:
    """Return why it does not work everywhere; None where it does."""
    if not answers:
        return absent
    return next((answer for answer in answers if isinstance(answer, Refusal)), None)


def _known(value: int | Refusal) -> int | None:
    return None if isinstance(value, Refusal) else value


def _watts(micro_watts: int) -> str:
    return f"{micro_watts / UW_PER_WATT:g} W"
