"""The machine below a `SysfsTree`, without a mount."""

from typing import Final

from joulie_agent.hardware.sysfs import SysfsTree
from joulie_agent.testing.kernel.machine import KernelMachine

#: Where the tree seems to be. Nothing is there on the running system, so a call that bypasses the tree fails.
_ROOT: Final = "/joulie-kernel-model"


class KernelTree(SysfsTree):
    """The /sys of a machine in memory."""

    def __init__(self, machine: KernelMachine) -> None:
        super().__init__(f"{_ROOT}/sys", _Calls(machine))
        self.machine = machine


class _Calls:
    """The machine's calls, below `_ROOT`."""

    def __init__(self, machine: KernelMachine) -> None:
        self._machine = machine
        self.read = machine.read
        self.write = machine.write
        self.mode = machine.mode
        self.close = machine.close

    def open(self, path: str, flags: int) -> int:
        return self._machine.open(path.removeprefix(_ROOT), flags)

    def entries(self, path: str) -> list[str]:
        return self._machine.entries(path.removeprefix(_ROOT))

    def real(self, path: str) -> str:
        return _ROOT + self._machine.real(path.removeprefix(_ROOT))
