"""The interrupts of this machine: move them to the CPUs that are wanted, restore.

Which CPUs an interrupt is to have follows from what it had without Joulie, so that an administrator's choice, or that
of a program such as irqbalance, is narrowed where that suffices.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from joulie_actuator import results
from joulie_actuator.hardware.interrupts import (
    DEFAULT_KEY,
    AffinityKnob,
    Interrupt,
    InterruptTable,
    affinity_knob,
    default_affinity_knob,
)
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.knob import HardwareFailure, Knob
from joulie_actuator.hardware.knob_results import RestoredKnob
from joulie_actuator.hardware.sysfs import SysfsTree, parse_cpu_list
from joulie_actuator.hardware.topology import CPU_ROOT
from joulie_actuator.protocol import LeaseKind, SetInterrupts
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import InterruptsReport, RestoreReport
from joulie_core.containers.idset import Cpus
from joulie_core.containers.interrupts import InterruptPlacement, affinity, matches

DISCOVERY_INTERVAL_S: Final = 60.0
_NO_CPUS: Final = HardwareFailure(Reason.NO_INTERFACE, "the list of CPUs that are online cannot be read")


@dataclass(slots=True)
class InterruptHandler:
    """Executes the requests for interrupts. One caller at a time. Reads nothing before the first request."""

    #: `/sys` and `/proc/irq`.
    tree: SysfsTree
    irq_tree: SysfsTree
    #: Or why nothing may be written.
    writer: JournaledWriter | HardwareFailure
    #: Monotonic seconds.
    clock: Callable[[], float]
    _table: InterruptTable | None = field(init=False, default=None)
    _read_at: float = field(init=False, default=0.0)
    #: Keys of interrupts that the kernel does not let move.
    _fixed: set[str] = field(init=False, default_factory=set)

    def execute(self, request: SetInterrupts) -> InterruptsReport:
        """Execute a request."""
        if isinstance(self.writer, HardwareFailure):
            return InterruptsReport(failure=self.writer)
        table = self._interrupts()
        if table.failure is not None:
            return InterruptsReport(failure=table.failure)
        online = self._online()
        if not online:
            return InterruptsReport(failure=_NO_CPUS)
        return self._apply(self.writer, table, request, online)

    def restore(self, keys: frozenset[str]) -> RestoreReport:
        """Restore interrupts, by key; what does not exist any more is forgotten."""
        if isinstance(self.writer, HardwareFailure):
            return RestoreReport(knobs=())
        self._table = None
        return RestoreReport(knobs=tuple(self._restore(self.writer, self._interrupts(), keys)))

    def keep(self, leases: frozenset[LeaseKind]) -> RestoreReport:
        """End what other leases hold, which is nothing."""
        assert LeaseKind.INTERRUPTS in leases, "there is no other lease of interrupts"
        return RestoreReport(knobs=())

    def _interrupts(self) -> InterruptTable:
        if self._table is None or self.clock() - self._read_at > DISCOVERY_INTERVAL_S:
            self._table, self._read_at = InterruptTable(self.tree), self.clock()
            self._fixed = {key for key in self._fixed if not self._table.is_gone(key)}
        return self._table

    def _online(self) -> Cpus:
        text = self.tree.read_text(f"{CPU_ROOT}/online")
        return Cpus() if isinstance(text, HardwareFailure) else Cpus(parse_cpu_list(text))

    def _knobs(self, table: InterruptTable) -> dict[str, Knob | HardwareFailure]:
        knobs: dict[str, Knob | HardwareFailure] = {
            key: affinity_knob(self.irq_tree, each) for key, each in table.interrupts.items()
        }
        return knobs | {DEFAULT_KEY: default_affinity_knob(self.irq_tree)}

    def _apply(
        self, writer: JournaledWriter, table: InterruptTable, request: SetInterrupts, online: Cpus
    ) -> InterruptsReport:
        wanted = request.placement()
        knobs = list(self._controllable(table, request.controllable))
        chosen = [_choice(writer, knob, wanted, each, online) for each, knob in knobs]
        values = [(knob, cpus) for (_, knob), cpus in zip(knobs, chosen, strict=True) if isinstance(cpus, Cpus)]
        failures = [each for each in chosen if isinstance(each, HardwareFailure)]
        # What cannot be read now stays as it is.
        stay = {knob.key for (_, knob), cpus in zip(knobs, chosen, strict=True) if cpus is not None}
        restored = self._restore(writer, table, frozenset(writer.managed - stay))
        moved = 0
        for (knob, _), answer in zip(values, writer.set_all([(knob, cpus.mask) for knob, cpus in values]), strict=True):
            if not isinstance(answer, HardwareFailure):
                moved += knob.key != DEFAULT_KEY
            elif answer.reason is Reason.IO_ERROR and knob.key != DEFAULT_KEY:
                self._fixed.add(knob.key)
            else:
                failures.append(answer)
        failures += results.failures(restored)
        if any(each.reason is Reason.NO_INTERFACE for each in failures):
            self._table = None  # an interrupt has gone since
        return InterruptsReport(
            moved=moved,
            fixed=len(self._fixed),
            left_out=table.left_out,
            failed=len(failures),
            message=results.join_messages(f"{each.reason}: {each.message}" for each in failures),
        )

    def _controllable(
        self, table: InterruptTable, patterns: Sequence[str]
    ) -> Iterator[tuple[Interrupt | None, AffinityKnob]]:
        """Return what may be moved: interrupts of a device, and None for those that devices get later."""
        for key, each in table.interrupts.items():
            if each.devices and key not in self._fixed and matches(patterns, each.number, each.names):
                yield each, affinity_knob(self.irq_tree, each)
        if matches(patterns, None, ()):
            yield None, default_affinity_knob(self.irq_tree)

    def _restore(self, writer: JournaledWriter, table: InterruptTable, keys: frozenset[str]) -> list[RestoredKnob]:
        gone = writer.forget(key for key in keys if table.is_gone(key))
        return [*gone, *results.restore(writer, keys, self._knobs(table))]


def _choice(
    writer: JournaledWriter, knob: AffinityKnob, wanted: InterruptPlacement, interrupt: Interrupt | None, online: Cpus
) -> Cpus | HardwareFailure | None:
    """Return the CPUs that an interrupt is to have; None where these are those that it has without Joulie."""
    found = writer.original(knob)
    if isinstance(found, HardwareFailure):
        return found
    original = Cpus.from_mask(found)
    number, names = (None, ()) if interrupt is None else (interrupt.number, interrupt.names)
    cpus = affinity(wanted, number, names, original, online)
    return None if cpus == original else cpus
