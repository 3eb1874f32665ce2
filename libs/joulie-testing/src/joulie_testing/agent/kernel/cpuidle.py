"""Idle states: one directory per CPU and state, with a switch that disables the state for that CPU.

A write of any number but zero sets the user's bit, and a read shows that bit. The directories stay while their CPU is
offline, with what was written: a driver registers its states when the CPU comes online for the first time.
Source: Linux, Documentation/admin-guide/pm/cpuidle.rst; drivers/cpuidle/sysfs.c (`store_state_disable`).
"""

from collections.abc import Callable
from dataclasses import dataclass

from joulie_testing.agent.kernel import parse
from joulie_testing.agent.kernel.cpus import CPU_ROOT
from joulie_testing.agent.kernel.filesystem import Filesystem
from joulie_testing.agent.machine_spec import MachineSpec

_SWITCH_BITS = 32


@dataclass(slots=True, eq=False)
class IdleState:
    """One state of one CPU."""

    cpu: int
    name: str
    disabled: bool = False


class Cpuidle:
    """The idle states of all CPUs."""

    def __init__(self, fs: Filesystem, spec: MachineSpec) -> None:
        self.states: tuple[IdleState, ...] = tuple(
            self._put(fs, cpu.number, index, name) for cpu in spec.cpus() for index, name in enumerate(spec.idle_states)
        )

    def reset(self) -> None:
        """Start as after a boot."""
        for state in self.states:
            state.disabled = False

    def _put(self, fs: Filesystem, cpu: int, index: int, name: str) -> IdleState:
        directory = f"{CPU_ROOT}/cpu{cpu}/cpuidle/state{index}"
        state = IdleState(cpu, name)
        fs.put(f"{directory}/name", name)
        fs.put(f"{directory}/disable", lambda: int(state.disabled), _switch(state))
        return state


def _switch(state: IdleState) -> Callable[[str], None]:
    def store(text: str) -> None:
        state.disabled = parse.unsigned(text, bits=_SWITCH_BITS) != 0

    return store
