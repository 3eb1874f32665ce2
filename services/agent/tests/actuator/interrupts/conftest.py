"""The interrupts of a machine in a directory."""

import errno
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from joulie_agent.actuator.executor import SubsystemExecutor
from joulie_agent.actuator.interrupt_protocol import InterruptClaims
from joulie_agent.actuator.interrupts import InterruptHandler
from joulie_agent.actuator.protocol import SetInterrupts, Subsystem
from joulie_agent.hardware.journal import Journal
from joulie_agent.hardware.journaled_writer import JournaledWriter
from joulie_agent.hardware.sysfs import OperationError, OsCalls, SysfsTree

#: Number, chip, hardware number, devices.
INTERRUPTS = (
    (4, "IO-APIC", 4, "ttyS0"),
    (9, "IO-APIC", 9, ""),
    (24, "PCI-MSIX-0000:01:00.0", 0, "eth0"),
    (25, "PCI-MSIX-0000:01:00.0", 1, "eth0-rx-0"),
    (26, "PCI-MSIX-0000:02:00.0", 0, "nvme0q0,nvme0q1"),
)


class IrqCalls(OsCalls):
    """Files that answer as the kernel's: a list or mask is read in its shortest form, and some writes are refused."""

    def __init__(self):
        self.refused = {}
        #: Path below the root and text, of each write that was accepted.
        self.written = []

    def write(self, path, content):
        code = self.refused.get("/".join(Path(path).parts[-2:]))
        if code is not None:
            raise OperationError(code, "refused")
        super().write(path, content)
        self.written.append(("/".join(Path(path).parts[-2:]), content.decode().strip()))


@dataclass
class Machine:
    """Files of 8 CPUs and their interrupts."""

    root: Path
    calls: IrqCalls = field(default_factory=IrqCalls)

    def __post_init__(self):
        self.put("sys/devices/system/cpu/online", "0-7")
        self.put("irq/default_smp_affinity", "ff")
        for each in INTERRUPTS:
            self.add(*each)

    def put(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def add(self, number, chip, hardware_number, devices, cpus="0-7"):
        for name, text in (("chip_name", chip), ("hwirq", hardware_number), ("actions", devices)):
            self.put(f"sys/kernel/irq/{number}/{name}", text)
        self.put(f"irq/{number}/smp_affinity_list", cpus)

    def remove(self, number):
        for directory in (self.root / f"sys/kernel/irq/{number}", self.root / f"irq/{number}"):
            for file in directory.iterdir():
                file.unlink()
            directory.rmdir()

    def refuse(self, number, code=errno.EIO):
        self.calls.refused[f"{number}/smp_affinity_list"] = code

    def cpus(self, number):
        return (self.root / f"irq/{number}/smp_affinity_list").read_text().partition("\n")[0]

    @property
    def default(self):
        return (self.root / "irq/default_smp_affinity").read_text().partition("\n")[0]

    @property
    def all(self):
        return {int(each.name): self.cpus(each.name) for each in (self.root / "irq").iterdir() if each.is_dir()}


@dataclass
class Bench:
    machine: Machine
    handler: InterruptHandler
    writer: JournaledWriter
    executor: SubsystemExecutor

    def set(self, *, controllable=("*",), claims=(), sinks="", isolated=""):
        request = SetInterrupts(
            controllable=controllable,
            claims=tuple(InterruptClaims(patterns=patterns, cpus=cpus) for patterns, cpus in claims),
            sinks=sinks,
            isolated=isolated,
            lease_s=60,
        )
        return self.executor.execute(request)


def open_bench(machine, writer, events, clock):
    handler = InterruptHandler(
        tree=SysfsTree(machine.root / "sys", machine.calls),
        irq_tree=SysfsTree(machine.root / "irq", machine.calls),
        writer=writer,
        clock=clock,
    )
    return Bench(machine, handler, writer, SubsystemExecutor(Subsystem.INTERRUPTS, handler, events, clock=clock))


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "machine")


@pytest.fixture
def bench(machine, writer, events, clock):
    made = open_bench(machine, writer, events, clock)
    yield made
    made.executor.close()


@pytest.fixture
def successor(machine, tmp_path, events, clock):
    """Open the machine as the next process, after `writer` has gone."""
    made = []

    def make():
        journal = Journal.open(tmp_path / "state")
        made.append(journal)
        return open_bench(machine, JournaledWriter(journal), events, clock)

    yield make
    for journal in made:
        journal.close()
