"""The interrupts of a machine in a directory."""

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from joulie_actuator.executor import SubsystemExecutor
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.sysfs import OperationError, OsCalls, SysfsTree
from joulie_actuator.interrupt_protocol import InterruptClaims
from joulie_actuator.interrupts import InterruptHandler
from joulie_actuator.log import Log
from joulie_actuator.protocol import SetInterrupts, Subsystem

#: Number, chip, hardware number, devices.
INTERRUPTS: Final = (
    (4, "IO-APIC", 4, "ttyS0"),
    (9, "IO-APIC", 9, ""),
    (24, "PCI-MSIX-0000:01:00.0", 0, "eth0"),
    (25, "PCI-MSIX-0000:01:00.0", 1, "eth0-rx-0"),
    (26, "PCI-MSIX-0000:02:00.0", 0, "nvme0q0,nvme0q1"),
)


class IrqCalls(OsCalls):
    """Files that answer as the kernel's: a list or mask is read in its shortest form, and some writes are refused."""

    def __init__(self) -> None:
        #: Error by the last two parts of a path.
        self.refused: dict[str, int] = {}
        #: Path below the root and text, of each write that was accepted.
        self.written: list[tuple[str, str]] = []

    def write(self, path: str, content: bytes) -> None:
        """Write, unless it is to be refused."""
        code = self.refused.get("/".join(Path(path).parts[-2:]))
        if code is not None:
            raise OperationError(code, "refused")
        super().write(path, content)
        self.written.append(("/".join(Path(path).parts[-2:]), content.decode().strip()))


@dataclass
class InterruptMachine:
    """Files of 8 CPUs and their interrupts."""

    root: Path
    calls: IrqCalls = field(default_factory=IrqCalls)

    def __post_init__(self) -> None:
        self.put("sys/devices/system/cpu/online", "0-7")
        self.put("irq/default_smp_affinity", "ff")
        for each in INTERRUPTS:
            self.add(*each)

    def put(self, path: str, text: object) -> None:
        """Write a file."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def add(self, number: int, chip: str, hardware_number: int, devices: str, cpus: str = "0-7") -> None:
        """Add an interrupt."""
        for name, text in (("chip_name", chip), ("hwirq", hardware_number), ("actions", devices)):
            self.put(f"sys/kernel/irq/{number}/{name}", text)
        self.put(f"irq/{number}/smp_affinity_list", cpus)

    def remove(self, number: int) -> None:
        """Remove an interrupt."""
        for directory in (self.root / f"sys/kernel/irq/{number}", self.root / f"irq/{number}"):
            for file in directory.iterdir():
                file.unlink()
            directory.rmdir()

    def refuse(self, number: int, code: int = errno.EIO) -> None:
        """Refuse to move an interrupt."""
        self.calls.refused[f"{number}/smp_affinity_list"] = code

    def cpus(self, number: int | str) -> str:
        """Return the CPUs of an interrupt."""
        return (self.root / f"irq/{number}/smp_affinity_list").read_text().partition("\n")[0]

    @property
    def default(self) -> str:
        """The mask of interrupts to come."""
        return (self.root / "irq/default_smp_affinity").read_text().partition("\n")[0]

    @property
    def all(self) -> dict[int, str]:
        """The CPUs of each interrupt."""
        return {int(each.name): self.cpus(each.name) for each in (self.root / "irq").iterdir() if each.is_dir()}


@dataclass
class InterruptBench:
    """The handler over such a machine."""

    machine: InterruptMachine
    handler: InterruptHandler
    writer: JournaledWriter
    executor: SubsystemExecutor

    def set(
        self,
        *,
        controllable: tuple[str, ...] = ("*",),
        claims: Sequence[tuple[tuple[str, ...], str]] = (),
        sinks: str = "",
        isolated: str = "",
    ) -> Any:
        """Request where interrupts are to be."""
        request = SetInterrupts(
            controllable=controllable,
            claims=tuple(InterruptClaims(patterns=patterns, cpus=cpus) for patterns, cpus in claims),
            sinks=sinks,
            isolated=isolated,
            lease_s=60,
        )
        return self.executor.execute(request)


def open_bench(
    machine: InterruptMachine, writer: JournaledWriter, events: Log, clock: Callable[[], float]
) -> InterruptBench:
    """Return a bench over a machine."""
    handler = InterruptHandler(
        tree=SysfsTree(machine.root / "sys", machine.calls),
        irq_tree=SysfsTree(machine.root / "irq", machine.calls),
        writer=writer,
        clock=clock,
    )
    return InterruptBench(
        machine, handler, writer, SubsystemExecutor(Subsystem.INTERRUPTS, handler, events, clock=clock)
    )
