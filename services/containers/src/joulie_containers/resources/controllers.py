"""Settings of a container by its placement: CPU and memory of its cgroup, and the classes of RDT and block I/O.

A controller that the host cannot serve states why, once in the log, and sets nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import structlog

from joulie_containers.nri.proto.nri_pb2 import (
    ContainerAdjustment,
    IOPrioClass,
    LinuxContainerAdjustment,
    LinuxSchedulerFlag,
    LinuxSchedulerPolicy,
)
from joulie_containers.resources.values import PERIOD_US, ContainerValues, CreationClasses
from joulie_core.containers.annotations import Annotations
from joulie_core.containers.container import ContainerInfo, ContainerResources
from joulie_core.containers.policy import Placement
from joulie_core.kinds.adjustment import AdjustedClasses
from joulie_core.kinds.container_policy import BlockIoControl, ControlOptions, IoClass, RdtControl, SchedulingClassSpec

_MILLI: Final = 1000
_NS_PER_US: Final = 1000
_IO_CLASSES: Final = {
    IoClass.NONE: "IOPRIO_CLASS_NONE",
    IoClass.REAL_TIME: "IOPRIO_CLASS_RT",
    IoClass.BEST_EFFORT: "IOPRIO_CLASS_BE",
    IoClass.IDLE: "IOPRIO_CLASS_IDLE",
}
#: The lowest quota that the kernel accepts.
_LOWEST_QUOTA_US: Final = 1000
#: Lifts a limit, of CPU time as of memory.
_NO_LIMIT: Final = -1

_log = structlog.get_logger()


def values_of(placement: Placement, adjusted: ContainerResources | None) -> ContainerValues:
    """Return the CPU and memory values of a placement.

    Args:
        placement: Where the container runs.
        adjusted: Its resources if its limits are to be set too; None leaves those of the runtime.
    """
    limits: dict[str, int] = {}
    if adjusted is not None:
        limits = {
            "cpu_quota_us": _quota_us(adjusted.cpu_limit_milli),
            "memory_limit_bytes": _NO_LIMIT if adjusted.memory_limit_bytes is None else adjusted.memory_limit_bytes,
        }
    return ContainerValues(cpus=placement.cpus, memory=placement.memory, cpu_shares=placement.cpu_shares, **limits)


def _quota_us(limit_milli: int | None) -> int:
    return _NO_LIMIT if limit_milli is None else max(_LOWEST_QUOTA_US, limit_milli * PERIOD_US // _MILLI)


#: Fields of the classes, by kind.
_KINDS: Final = ("rdt", "blockio")


class CreationControllers:
    """Controllers of what new containers get besides cgroup values: classes of RDT and block I/O, and scheduling.

    Args:
        host_root: directory below which the host's /sys is found.
    """

    def __init__(self, host_root: Path) -> None:
        self._host_root = host_root
        self._stated: set[str] = set()
        self._control = ControlOptions()
        self._scheduling: Mapping[str, SchedulingClassSpec] = {}

    def define(self, control: ControlOptions, scheduling_classes: Iterable[SchedulingClassSpec] = ()) -> None:
        """Note the controls and the scheduling classes of the configuration."""
        self._control = control
        self._scheduling = {each.name: each for each in scheduling_classes}
        for spec in self._scheduling.values():
            if unknown := [flag for flag in spec.flags if _flag(flag) not in LinuxSchedulerFlag.keys()]:  # noqa: SIM118
                _log.warning("scheduling flags ignored", scheduling_class=spec.name, flags=unknown)

    @property
    def unavailable(self) -> Mapping[str, str]:
        """Reasons why kinds of classes cannot be used on this host, by kind; nothing for those that can."""
        checks: Mapping[str, Callable[[Path], str | None]] = {"rdt": _rdt_problem, "blockio": _blockio_problem}
        return {name: why for name, check in checks.items() if (why := check(self._host_root)) is not None}

    def complete(self, adjustment: ContainerAdjustment, container: ContainerInfo, placement: Placement) -> None:
        """Add the classes of a container and of its placement to the adjustment of the container."""
        classes = self.classes_of(container)
        if classes.rdt is not None:
            adjustment.linux.resources.rdt_class.value = classes.rdt
        if classes.blockio is not None:
            adjustment.linux.resources.blockio_class.value = classes.blockio
        if placement.scheduling_class is not None:
            spec = self._scheduling.get(placement.scheduling_class)
            assert spec is not None, "a policy names scheduling classes of its configuration only"
            schedule(adjustment.linux, spec)

    def classes_of(self, container: ContainerInfo) -> CreationClasses:
        """Return the classes that a container gets when it is created."""
        rdt = _class_of("rdtclass", container, self._control.rdt)
        blockio = _class_of("blockioclass", container, self._control.blockio)
        return CreationClasses(
            rdt=rdt if rdt is not None and self._is_available("rdt", container) else None,
            blockio=blockio if blockio is not None and self._is_available("blockio", container) else None,
        )

    def class_problems(self, wanted: AdjustedClasses, created: CreationClasses) -> Sequence[str]:
        """Return why a running container does not have the classes of an Adjustment.

        A runtime takes both kinds of classes in an update of a container and does nothing with them: containerd
        converts updates to a message of the CRI, which has neither, and `runc update` cannot change them.

        Args:
            wanted: The classes of the Adjustment.
            created: Those that the container was created with.
        """
        problems = []
        unavailable = self.unavailable
        for kind in _KINDS:
            name = getattr(wanted, kind)
            if name is None or name == getattr(created, kind):
                continue
            if not getattr(self._control, kind).enable:
                why = f"the configuration in force does not enable control.{kind}"
            else:
                late = f"{name} is set when the container is created again; runtimes do not change it before"
                why = unavailable.get(kind, late)
            problems.append(f"classes.{kind}: {why}")
        return problems

    def _is_available(self, kind: str, container: ContainerInfo) -> bool:
        why = self.unavailable.get(kind)
        if why is not None and kind not in self._stated:
            self._stated.add(kind)
            _log.warning("class unavailable", kind=kind, why=why, container=container.title)
        return why is None


def schedule(linux: LinuxContainerAdjustment, spec: SchedulingClassSpec) -> None:
    """Set the scheduling of a class; a runtime before NRI 0.11 ignores it."""
    if spec.policy is not None:
        # In the types of protobuf a value is a class of its own, and `Value` returns an integer.
        linux.scheduler.policy = cast(LinuxSchedulerPolicy, LinuxSchedulerPolicy.Value(f"SCHED_{spec.policy.name}"))
        flags = [_flag(flag) for flag in spec.flags if _flag(flag) in LinuxSchedulerFlag.keys()]  # noqa: SIM118
        linux.scheduler.flags.extend(cast(LinuxSchedulerFlag, LinuxSchedulerFlag.Value(flag)) for flag in flags)
        linux.scheduler.nice = spec.nice or 0
        linux.scheduler.priority = spec.priority or 0
        linux.scheduler.runtime = _NS_PER_US * (spec.runtime or 0)
        linux.scheduler.deadline = _NS_PER_US * (spec.deadline or 0)
        linux.scheduler.period = _NS_PER_US * (spec.period or 0)
    if spec.io_class is not None:
        setattr(linux.io_priority, "class", IOPrioClass.Value(_IO_CLASSES[spec.io_class]))
        linux.io_priority.priority = spec.io_priority or 0


def _class_of(key: str, container: ContainerInfo, control: RdtControl | BlockIoControl) -> str | None:
    """Return the class in an annotation, or where the configuration has it so the one named like the QoS class."""
    if not control.enable:
        return None
    annotations = Annotations(container)
    named = annotations.text(key)
    for warning in annotations.warnings:
        _log.warning("annotation ignored", container=container.title, why=warning.message)
    return named or (container.qos.value if control.use_pod_qos_as_default_class else None)


def _flag(name: str) -> str:
    return "SCHED_FLAG_" + name.removeprefix("SCHED_FLAG_").replace("-", "_").upper()


def _rdt_problem(host_root: Path) -> str | None:
    if (host_root / "sys/fs/resctrl/schemata").exists():
        return None
    return "the host has not mounted resctrl at /sys/fs/resctrl"


def _blockio_problem(host_root: Path) -> str | None:
    controllers = host_root / "sys/fs/cgroup/cgroup.controllers"
    try:
        unified = controllers.read_text(encoding="ascii").split()
    except FileNotFoundError:
        unified = ["io"] if (host_root / "sys/fs/cgroup/blkio").is_dir() else []
    except OSError as error:
        return f"the cgroup controllers cannot be read: {error}"
    return None if "io" in unified else "the host has no cgroup controller for block I/O"
