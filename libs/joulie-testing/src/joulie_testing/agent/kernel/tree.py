"""The machine below a `SysfsTree`, without a mount."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from joulie_actuator.hardware.sysfs import OperationError, SysfsTree
from joulie_testing.agent.kernel.machine import KernelMachine

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

    def read(self, path: str) -> bytes:
        with self._opened(path, os.O_RDONLY) as handle:
            return self._machine.read(handle)

    def write(self, path: str, content: bytes) -> None:
        with self._opened(path, os.O_WRONLY) as handle:
            self._machine.write(handle, content)

    def check_writable(self, path: str) -> None:
        with self._opened(path, os.O_WRONLY):
            pass

    @contextmanager
    def _opened(self, path: str, flags: int) -> Iterator[int]:
        handle = self._machine.open(path.removeprefix(_ROOT), flags)
        try:
            yield handle
        except OSError as error:
            raise OperationError(error.errno, error.strerror) from error
        finally:
            self._machine.close(handle)

    def entries(self, path: str) -> list[str]:
        return self._machine.entries(path.removeprefix(_ROOT))

    def real(self, path: str) -> str:
        return _ROOT + self._machine.real(path.removeprefix(_ROOT))
