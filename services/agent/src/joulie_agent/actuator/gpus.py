"""The GPUs of this machine, of whatever vendor: cap, read, describe, give back.

Promises identity by UUID, each device's own range, and that one vendor's driver that is absent, lost or hung keeps
neither the other's GPUs nor anything else from being served. Drivers are opened when they are first asked.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import msgspec

from joulie_agent.actuator import gpu_clocks, verdicts
from joulie_agent.actuator.protocol import (
    DescribeGpu,
    GpuDescription,
    GpuPowerReading,
    GpuReadings,
    ReadGpu,
    Reply,
    RestoreReport,
    SetGpuCaps,
    SetGpuClocks,
)
from joulie_agent.hardware.gpu.driver import MW_PER_WATT, GpuDeviceInfo, GpuDriver, clock_key, limit_key
from joulie_agent.hardware.journaled_writer import JournaledWriter, WrittenKnob
from joulie_agent.hardware.knob import HardwareFailure, Knob
from joulie_agent.outcome import ControlOutcome
from joulie_agent.reasons import Reason
from joulie_core.control_result import ControlResult

GpuRequest: TypeAlias = SetGpuCaps | SetGpuClocks | ReadGpu | DescribeGpu
NONE: Final = "none"
LOOK_EVERY_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Order:
    uuid: str
    driver: GpuDriver
    knob: Knob
    asked_mw: int

    @property
    def limit_mw(self) -> int:
        return self.knob.limits.clamp(self.asked_mw)

    @property
    def unlimited(self) -> bool:
        """Not below the upper end of the range: no cap."""
        return self.asked_mw >= self.knob.limits.high


@dataclass(slots=True)
class GpuHandler:
    """Carries out what is asked of the GPUs. One caller at a time."""

    drivers: Sequence[GpuDriver]
    #: Or why nothing may be written.
    hands: JournaledWriter | HardwareFailure
    #: Monotonic seconds.
    clock: Callable[[], float]
    #: What each driver has told, and why it does not tell now.
    _devices: dict[str, tuple[GpuDeviceInfo, ...]] = field(init=False, default_factory=dict)
    _refusals: dict[str, HardwareFailure] = field(init=False, default_factory=dict)
    _homes: dict[str, GpuDriver] = field(init=False, default_factory=dict)
    _looked_at: float | None = field(init=False, default=None)
    _generations: list[int] = field(init=False, default_factory=list)
    _revision: int = field(init=False, default=0)

    def carry_out(self, request: GpuRequest) -> Reply:
        """Do what is asked."""
        if self._is_stale():
            self._look()
        match request:
            case SetGpuCaps(caps_mw=caps_mw, release_clocks=release):
                done = self._cap(caps_mw)
                return self._release_clocks(done) if release else done
            case SetGpuClocks(clocks_mhz=clocks_mhz):
                return self._limit_clocks(clocks_mhz)
            case ReadGpu():
                return self._read()
            case DescribeGpu():
                return self._describe()

    def restore(self, keys: frozenset[str]) -> RestoreReport:
        """Give knobs back, by key. No driver is opened where there is nothing to give back."""
        if isinstance(self.hands, HardwareFailure) or not keys:
            return RestoreReport(knobs=())
        self._look()
        silent = self._silent()
        knobs: dict[str, Knob | HardwareFailure] = {} if silent is None else dict.fromkeys(keys, silent)
        knobs |= {limit_key(uuid): driver.power_limit(uuid) for uuid, driver in self._homes.items()}
        knobs |= gpu_clocks.held_knobs(self.hands, self._homes)
        return RestoreReport(knobs=verdicts.give_back(self.hands, keys, knobs))

    def _is_stale(self) -> bool:
        if self._looked_at is None or self.clock() - self._looked_at > LOOK_EVERY_S:
            return True
        # What is being opened, or hangs, may answer at any moment.
        waiting = (*self._refusals.values(), *(info.refusal for info in self._all()))
        if any(refusal is not None and refusal.reason is Reason.TIMEOUT for refusal in waiting):
            return True
        return self._generations != [driver.generation for driver in self.drivers]

    def _look(self) -> None:
        """Ask every driver what it has; one that does not answer has what it had."""
        before = [_constant(info) for info in self._all()]
        for driver in self.drivers:
            found = driver.devices()
            if isinstance(found, HardwareFailure):
                self._refusals[driver.name] = found
                found = tuple(replace(info, refusal=found) for info in self._devices.get(driver.name, ()))
            else:
                self._refusals.pop(driver.name, None)
            self._devices[driver.name] = tuple(map(self._unlimited, found))
            self._homes |= {info.uuid: driver for info in found if info.uuid}
        if self._looked_at is None or before != [_constant(info) for info in self._all()]:
            self._revision += 1
        self._looked_at = self.clock()
        self._generations = [driver.generation for driver in self.drivers]

    def _all(self) -> list[GpuDeviceInfo]:
        return [info for infos in self._devices.values() for info in infos]

    def _cap(self, caps_mw: dict[str, int]) -> ControlOutcome:
        if isinstance(self.hands, HardwareFailure):
            return verdicts.refused(NONE, [self.hands])
        refusals: list[HardwareFailure] = []
        orders: list[_Order] = []
        for uuid, cap_mw in caps_mw.items():
            knob = self._knob(uuid)
            if isinstance(knob, HardwareFailure):
                refusals.append(knob)
            else:
                orders.append(_Order(uuid, self._homes[uuid], knob, cap_mw))
        bounded = [order for order in orders if not order.unlimited]
        answers = list(
            zip(bounded, self.hands.set_all([(order.knob, order.limit_mw) for order in bounded]), strict=True)
        )
        answers += self._unlimit(self.hands, [order for order in orders if order.unlimited])
        return _judged(orders, answers, refusals)

    @staticmethod
    def _unlimit(
        hands: JournaledWriter, orders: Sequence[_Order]
    ) -> list[tuple[_Order, WrittenKnob | HardwareFailure]]:
        """Restore the GPUs that no limit is wanted of: what was found may be lower than the end of the range."""
        freed = {knob.key: knob for knob in hands.restore(order.knob for order in orders)}
        answers: list[tuple[_Order, WrittenKnob | HardwareFailure]] = []
        for order in orders:
            restored = freed.get(order.knob.key)
            if restored is not None and restored.reason is not None:
                answers.append((order, HardwareFailure(restored.reason, restored.message)))
                continue
            value = order.knob.read()
            changed = restored is not None
            answers.append(
                (order, value if isinstance(value, HardwareFailure) else WrittenKnob(value, changed, foreign=True))
            )
        return answers

    def _limit_clocks(self, clocks_mhz: dict[str, int]) -> ControlOutcome:
        if isinstance(self.hands, HardwareFailure):
            return verdicts.refused(NONE, [self.hands])
        backend = next((self._homes[uuid].name for uuid in (*clocks_mhz, *self._homes) if uuid in self._homes), NONE)
        absent = self._silent() or HardwareFailure(Reason.NO_DEVICE, "a GPU whose clock is to be limited is not there")
        return gpu_clocks.limit(self.hands, self._homes, clocks_mhz, backend, absent)

    def _release_clocks(self, done: ControlOutcome) -> ControlOutcome:
        """Restore what an earlier controller has limited; what cannot be restored now is tried again by the lane."""
        if isinstance(self.hands, HardwareFailure):
            return done
        said = verdicts.remarks(gpu_clocks.release(self.hands, self._homes))
        return msgspec.structs.replace(done, message=verdicts.join([done.message, *said]))

    def _knob(self, uuid: str) -> Knob | HardwareFailure:
        driver = self._homes.get(uuid)
        if driver is not None:
            return driver.power_limit(uuid)
        return self._silent() or HardwareFailure(Reason.NO_DEVICE, f"no GPU {uuid}")

    def _silent(self) -> HardwareFailure | None:
        """Why a GPU that is not known may be there all the same: a driver, or a device without a name, is silent."""
        broken = [refusal for refusal in self._refusals.values() if refusal.reason is not Reason.NO_INTERFACE]
        broken += [info.refusal for info in self._all() if not info.uuid and info.refusal is not None]
        return broken[0] if broken else None

    def _read(self) -> GpuReadings:
        return GpuReadings(
            revision=self._revision,
            gpus=tuple(self._figure(info.uuid) for info in self._all() if info.uuid),
            refusals=dict(self._refusals),
            overwritten=dict(self.hands.overwritten) if isinstance(self.hands, JournaledWriter) else {},
        )

    def _figure(self, uuid: str) -> GpuPowerReading:
        found = self._homes[uuid].read(uuid, gpu_clocks.held_clock(self.hands, uuid))
        if isinstance(found, HardwareFailure):
            return GpuPowerReading(uuid=uuid, refusal=found)
        return GpuPowerReading(
            uuid=uuid,
            power_mw=_known(found.power_mw),
            limit_mw=_known(found.limit_mw),
            clock_limit_mhz=_known(found.clock_limit_mhz),
            refusal=next(
                (each for each in (found.power_mw, found.limit_mw) if isinstance(each, HardwareFailure)), None
            ),
        )

    def _unlimited(self, info: GpuDeviceInfo) -> GpuDeviceInfo:
        """Tell a GPU's own highest clock where the driver tells a limit of ours."""
        original = {} if isinstance(self.hands, HardwareFailure) else self.hands.originals
        own_mhz = original.get(clock_key(info.uuid))
        if own_mhz is None or info.highest_mhz is None:
            return info
        return replace(info, highest_mhz=max(own_mhz, info.highest_mhz))

    def _describe(self) -> GpuDescription:
        return GpuDescription(
            revision=self._revision,
            devices=tuple(self._all()),
            refusals=dict(self._refusals),
            journal=self.hands if isinstance(self.hands, HardwareFailure) else self.hands.journal_refusal,
        )


def _judged(
    orders: Sequence[_Order],
    answers: Sequence[tuple[_Order, WrittenKnob | HardwareFailure]],
    refusals: Sequence[HardwareFailure],
) -> ControlOutcome:
    """Return the verdict on caps that were set one by one."""
    backend = next((order.driver.name for order in orders), NONE)
    written = [(order, answer) for order, answer in answers if isinstance(answer, WrittenKnob)]
    refusals = [*refusals, *(answer for _, answer in answers if isinstance(answer, HardwareFailure))]
    if refusals:
        return verdicts.refused(backend, refusals, some_landed=bool(written))
    enforced_watts = max(_in_force_mw(order, answer) for order, answer in written) / MW_PER_WATT
    held = [(order, answer) for order, answer in written if _is_held_higher(order, answer)]
    if held:
        kept = [HardwareFailure(Reason.HELD_BY_FIRMWARE, _held_at(order, answer)) for order, answer in held]
        return verdicts.partly(backend, Reason.HELD_BY_FIRMWARE, kept, enforced_watts=enforced_watts)
    said = verdicts.overwrote((order.knob.key, answer) for order, answer in answers if not order.unlimited)
    bounded = [order for order in orders if not order.unlimited]
    clamped = [order for order in bounded if order.limit_mw != order.asked_mw]
    said += [f"{order.knob.key} is held at {order.limit_mw / MW_PER_WATT:g} W by its range" for order in clamped]
    said += [f"no limit is set on {order.knob.key}: {_cap_of(order)}" for order in orders if order.unlimited]
    reason = Reason.CLAMPED if clamped else Reason.CAPPED
    return ControlOutcome(
        result=ControlResult.APPLIED,
        reason=reason if bounded else Reason.RESTORED,
        backend=backend,
        message=verdicts.join(said),
        enforced_watts=enforced_watts,
    )


def _is_held_higher(order: _Order, answer: WrittenKnob) -> bool:
    """Whether the driver took the limit and keeps a higher one; AMD's keeps whole watts."""
    return not answer.foreign and _in_force_mw(order, answer) >= order.limit_mw + MW_PER_WATT


def _held_at(order: _Order, answer: WrittenKnob) -> str:
    held, asked = answer.value / MW_PER_WATT, order.limit_mw / MW_PER_WATT
    return f"{order.knob.key} reads {held:g} W where {asked:g} W was written"


def _cap_of(order: _Order) -> str:
    asked, end = order.asked_mw / MW_PER_WATT, order.knob.limits.high / MW_PER_WATT
    return f"{asked:g} W is not below the end of its range, {end:g} W"


def _in_force_mw(order: _Order, written: WrittenKnob) -> int:
    """The limit that holds, which the hardware itself may have lowered below the one that was set."""
    enforced_mw = order.driver.enforced_mw(order.uuid)
    return written.value if isinstance(enforced_mw, HardwareFailure) else enforced_mw


def _known(value: int | HardwareFailure | None) -> int | None:
    return None if isinstance(value, HardwareFailure) else value


def _constant(info: GpuDeviceInfo) -> object:
    """What of a GPU changes only when the hardware does."""
    return replace(info, current_mw=None, enforced_mw=None, refusal=None), info.refusal and info.refusal.reason
