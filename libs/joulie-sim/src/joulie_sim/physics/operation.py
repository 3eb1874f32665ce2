"""Operating point of a node: power and speeds as a function of hardware, controls and load.

Watts and speeds are constant until load or controls change, so that energy over a period is a product.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from joulie_core.hardware.clock_sweeps import ClockSweeps
from joulie_core.power.draw import Draw, draw_under
from joulie_sim.physics.parts import Controls, CpuPart, GpuPart, Hardware


@dataclass(frozen=True, slots=True)
class Load:
    """Load of one running job."""

    #: Cores it holds, and the busy share of them in [0, 1].
    cores: float = 0.0
    cpu_utilization: float = 0.0
    #: Indices of the GPUs it holds, and their busy share in [0, 1].
    gpus: tuple[int, ...] = ()
    gpu_utilization: float = 0.0


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """Power and speeds of a node. Speeds are work per second over work per second without limits, in [0, 1]."""

    package_watts: float = 0.0
    packages: int = 0
    cpu_utilization: float = 0.0
    #: By cap and throttle only; reported as relative performance.
    cpu_speed: float = 1.0
    #: Existing share of the busy cores: below 1 if jobs use more cores than the node has.
    cpu_share: float = 1.0
    gpu_watts: tuple[float, ...] = ()
    gpu_utilizations: tuple[float, ...] = ()
    gpu_speeds: tuple[float, ...] = ()

    @property
    def cpu_watts(self) -> float:
        """Watts of all packages."""
        return self.package_watts * self.packages

    @property
    def total_gpu_watts(self) -> float:
        """Watts of all GPUs."""
        return sum(self.gpu_watts)

    @property
    def watts(self) -> float:
        """Watts of all packages and GPUs; other components are not simulated."""
        return self.cpu_watts + self.total_gpu_watts

    @property
    def gpu_speed(self) -> float:
        """Mean speed of the busy GPUs, 1 if none is busy."""
        busy = [speed for speed, used in zip(self.gpu_speeds, self.gpu_utilizations, strict=True) if used > 0.0]
        return sum(busy) / len(busy) if busy else 1.0


def operate(hardware: Hardware, controls: Controls, loads: Sequence[Load]) -> OperatingPoint:
    """Return the operating point of a node with these jobs."""
    package_watts, packages, cpu_utilization, cpu_speed, cpu_share = 0.0, 0, 0.0, 1.0, 1.0
    if hardware.cpu is not None:
        packages = hardware.cpu.sockets
        busy_cores = sum(load.cores * load.cpu_utilization for load in loads)
        cpu_share = min(1.0, hardware.cpu.cores / busy_cores) if busy_cores > 0.0 else 1.0
        cpu_utilization = min(1.0, busy_cores / hardware.cpu.cores)
        draw = _cpu_draw(hardware.cpu, cpu_utilization, controls)
        package_watts, cpu_speed = draw.watts, draw.speed
    utilizations = _gpu_utilizations(hardware.gpu, loads)
    draws = [
        gpu_draw(hardware.gpu, used, controls, clock_share=controls.gpu_clock_share(index))
        for index, used in enumerate(utilizations)
        if hardware.gpu is not None
    ]
    return OperatingPoint(
        package_watts=package_watts,
        packages=packages,
        cpu_utilization=cpu_utilization,
        cpu_speed=cpu_speed,
        cpu_share=cpu_share,
        gpu_watts=tuple(draw.watts for draw in draws),
        gpu_utilizations=utilizations,
        gpu_speeds=tuple(draw.speed for draw in draws),
    )


def job_speed(point: OperatingPoint, load: Load) -> float:
    """Return the speed of one job, in [0, 1]: that of the slowest part it uses."""
    speeds = [point.gpu_speeds[index] for index in load.gpus if index < len(point.gpu_speeds)]
    if load.cpu_utilization > 0.0 and load.cores > 0.0:
        speeds.append(point.cpu_speed * point.cpu_share)
    return min(speeds, default=1.0)


def effective_cpu_cap(cpu: CpuPart, controls: Controls) -> float:
    """Return the cap of one package: as set, else the maximum, which is the default of real packages."""
    return cpu.max_cap_watts if controls.cpu_cap_watts is None else controls.cpu_cap_watts


def effective_gpu_cap(gpu: GpuPart, controls: Controls) -> float:
    """Return the cap of one GPU: as set, else the default."""
    return gpu.default_cap_watts if controls.gpu_cap_watts is None else controls.gpu_cap_watts


def gpu_draw(
    gpu: GpuPart, utilization: float, controls: Controls, *, clock_share: float = 1.0, memory_bound: bool = False
) -> Draw:
    """Return power and speed of one GPU.

    Args:
        gpu: its model.
        utilization: its busy share, in [0, 1].
        controls: of the node, whose clocks are left out.
        clock_share: its highest clock over the one that it holds alone.
        memory_bound: whether its work waits for memory; other work follows the clock.
    """
    idle_watts, natural_watts = gpu.curve.watts(0.0, gpu.max_watts), gpu.curve.watts(utilization, gpu.max_watts)
    cap_watts, speed = effective_gpu_cap(gpu, controls), 1.0
    if clock_share < 1.0:
        point = ClockSweeps.load().of(gpu.model).at(clock_share, memory_bound=memory_bound)
        # The sweeps are of full load: what falls with the clock is what load adds to idle.
        left = max(0.0, (point.power * gpu.max_watts - idle_watts) / (gpu.max_watts - idle_watts))
        natural_watts, speed = idle_watts + (natural_watts - idle_watts) * left, point.speed
    draw = draw_under(gpu.curve.response, natural_watts, idle_watts, cap_watts=cap_watts)
    return Draw(draw.watts, draw.speed * speed)


def _cpu_draw(cpu: CpuPart, utilization: float, controls: Controls) -> Draw:
    curve, max_watts = cpu.curve, cpu.max_watts
    natural_watts, idle_watts = curve.watts(utilization, max_watts), curve.watts(0.0, max_watts)
    cap_watts, throttled_share = effective_cpu_cap(cpu, controls), controls.throttle_pct / 100.0
    return draw_under(curve.response, natural_watts, idle_watts, cap_watts=cap_watts, throttled_share=throttled_share)


def _gpu_utilizations(gpu: GpuPart | None, loads: Sequence[Load]) -> tuple[float, ...]:
    if gpu is None:
        return ()
    used = [0.0] * gpu.count
    for load in loads:
        for index in load.gpus:
            if index < gpu.count:
                used[index] = min(1.0, used[index] + load.gpu_utilization)
    return tuple(used)
