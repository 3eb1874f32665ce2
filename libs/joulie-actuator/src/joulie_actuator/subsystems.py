"""The subsystems of this machine: journals and machine locked, one executor for each."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from joulie_actuator.cpus import CpuHandler
from joulie_actuator.executor import SubsystemExecutor, SubsystemHandler
from joulie_actuator.gpus import GpuHandler
from joulie_actuator.hardware import machine_lock
from joulie_actuator.hardware.gpu.driver import GpuDriver
from joulie_actuator.hardware.gpu.host import host_gpu_drivers
from joulie_actuator.hardware.journal import Journal, JournalHeldError
from joulie_actuator.hardware.journal_file import JournalError
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.sysfs import OsCalls, SysfsTree
from joulie_actuator.hardware.watch import Watch, WatchedCalls
from joulie_actuator.interrupts import InterruptHandler
from joulie_actuator.log import Level, Log
from joulie_actuator.protocol import Subsystem
from joulie_actuator.reasons import Reason
from joulie_actuator.settings import ActuatorSettings


class HostSubsystems:
    """The executors of this machine, one per subsystem. `close` releases the locks and leaves managed limits in force.

    Raises:
        JournalHeldError: another process holds the journals.
        MachineHeldError: another process holds the machine, with other journals.
    """

    def __init__(
        self,
        settings: ActuatorSettings,
        log: Log,
        *,
        drivers: Sequence[GpuDriver] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._claims = ExitStack()
        self.executors: Mapping[Subsystem, SubsystemExecutor] = {}
        self._journals: dict[Subsystem, Journal] = {}
        state_dir = Path(settings.state_dir)
        try:
            self.writer = writer = {subsystem: self._claim(subsystem, state_dir, log) for subsystem in Subsystem}
            self._claim_machine(Path(settings.host_sys_root), state_dir, log)
        except JournalHeldError:
            self.close()
            raise
        watches = {subsystem: Watch() for subsystem in Subsystem}
        for subsystem, journal in self._journals.items():
            journal.watch = watches[subsystem]
        tree = SysfsTree(settings.host_sys_root, WatchedCalls(OsCalls(), watches[Subsystem.CPU]))
        cpus = CpuHandler(
            tree=tree,
            proc_root=settings.host_proc_root,
            writer=writer[Subsystem.CPU],
            min_freq_khz=settings.dvfs_min_freq_khz,
            clock=clock,
        )
        drivers = host_gpu_drivers(settings.host_sys_root) if drivers is None else drivers
        gpus = GpuHandler(
            drivers=drivers, writer=writer[Subsystem.GPU], clock=clock, proc_root=Path(settings.host_proc_root)
        )
        watched = WatchedCalls(OsCalls(), watches[Subsystem.INTERRUPTS])
        interrupts = InterruptHandler(
            tree=SysfsTree(settings.host_sys_root, watched),
            irq_tree=SysfsTree(settings.host_irq_root, watched),
            writer=writer[Subsystem.INTERRUPTS],
            clock=clock,
        )
        handlers: Mapping[Subsystem, SubsystemHandler] = {
            Subsystem.CPU: cpus,
            Subsystem.GPU: gpus,
            Subsystem.INTERRUPTS: interrupts,
        }
        self.executors = {
            subsystem: SubsystemExecutor(subsystem, handler, log, clock=clock, watch=watches[subsystem])
            for subsystem, handler in handlers.items()
        }

    def close(self) -> None:
        """Release the journals and the machine."""
        for executor in self.executors.values():
            executor.close()
        self._claims.close()

    def _claim_machine(self, sys_root: Path, state_dir: Path, log: Log) -> None:
        lock = machine_lock.claim(sys_root, state_dir)
        if lock is None:
            log("machine cannot be locked, only the state directory is", level=Level.DEBUG, sys_root=str(sys_root))
        else:
            self._claims.callback(os.close, lock)

    def _claim(self, subsystem: Subsystem, state_dir: Path, log: Log) -> JournaledWriter | HardwareFailure:
        try:
            journal = self._journals[subsystem] = self._claims.enter_context(Journal.open(state_dir / subsystem))
        except JournalHeldError:
            raise
        except JournalError as error:
            log(
                "journal cannot be used, nothing will be written",
                level=Level.ERROR,
                subsystem=subsystem,
                error=str(error),
            )
            return HardwareFailure(Reason.NO_JOURNAL, str(error))
        if journal.dropped:
            log("entries of an earlier boot dropped", subsystem=subsystem, knobs=journal.dropped)
        if journal.problem is not None:
            log(
                "journal cannot be written, limits will be restored and none set",
                level=Level.ERROR,
                subsystem=subsystem,
                error=journal.problem,
            )
        return JournaledWriter(journal)
