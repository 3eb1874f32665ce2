"""Power and speed of a node's devices under caps: what the engine requires of a model, and the model in use.

The engine knows no law; it holds the values that a model returns until load or caps change.
"""

from typing import Final, NamedTuple, Protocol

from joulie_core.power.chassis import gpus_at_wall
from joulie_core.power.draw import Draw, LimitedDraw, limited_draw
from joulie_core.power.server import server_power
from joulie_sim.engine.machines import HardwareGroup
from joulie_sim.physics.operation import effective_cpu_cap, gpu_draw
from joulie_sim.physics.parts import Controls, Hardware

_GIB: Final = 1024**3
_KEPT_DRAWS: Final = 10_000


class ServerDraw(NamedTuple):
    """A server without its GPUs."""

    #: At the wall, with everything that is in the server.
    wall_watts: float
    #: All CPU packages: what RAPL measures, and what limits leave of their clock.
    packages: LimitedDraw


class SlowedCores(NamedTuple):
    """Busy hardware threads that are held at a share of the full frequency."""

    busy: float
    frequency_share: float


class LimitedGpuWork(NamedTuple):
    """A limit on the graphics clock of a GPU, and the kind of its work."""

    #: Highest clock over the one that the GPU holds alone.
    clock_share: float
    #: Whether its job waits for memory; other work follows the clock.
    memory_bound: bool


class NodePowerModel(Protocol):
    """Power and speed of the devices of one node; each GPU is held by one job or by none."""

    def server(self, busy_cores: float, controls: Controls, slowed: SlowedCores | None = None) -> ServerDraw:
        """Return the draw of the server with that many busy hardware threads, of which some may be slowed.

        The speed that is returned is that of the threads that are not slowed.
        """

    def gpu(self, utilization: float, controls: Controls, clock: LimitedGpuWork | None = None) -> Draw:
        """Return the draw of one GPU whose job keeps it busy to that share, at the GPU itself."""

    def wall_watts(self, gpu_watts: float) -> float:
        """Return the watts at the wall that all GPUs of the node add when they draw that together."""


def full_load_watts(hardware: Hardware, model: NodePowerModel) -> float:
    """Return the watts of a node at the wall with all its devices at full load and no limit below their own."""
    cores = hardware.cpu.cores if hardware.cpu is not None else 0.0
    gpus = hardware.gpu.count if hardware.gpu is not None else 0
    gpu_watts = gpus * model.gpu(1.0, Controls()).watts if gpus else 0.0
    return model.server(cores, Controls()).wall_watts + model.wall_watts(gpu_watts)


class CalibratedPowerModel:
    """The calibrated models of `joulie_core.power` (docs/models.md); one object serves all nodes of a group."""

    def __init__(self, group: HardwareGroup) -> None:
        self._hardware = group.hardware
        cpu = group.view.cpu
        assert cpu is not None, "machines have known CPUs"
        self._curve = cpu.spec.curve
        memory_gib = group.view.memory_bytes / _GIB
        self._server = server_power(cpu.spec, cpu.sockets, memory_gib or None)
        self._gpus_highest_watts = group.view.gpu_max_watts
        #: By busy cores and controls: loads of nodes of a group recur, since utilizations are few.
        self._server_draws: dict[tuple[float, float | None, float, SlowedCores | None], ServerDraw] = {}
        #: GPUs have few utilizations at a time, since a job keeps its own from start to end.
        self._gpu_draws: dict[tuple[float, float | None, LimitedGpuWork | None], Draw] = {}

    def server(self, busy_cores: float, controls: Controls, slowed: SlowedCores | None = None) -> ServerDraw:
        """Return the draw of the server."""
        key = (busy_cores, controls.cpu_cap_watts, controls.throttle_pct, slowed)
        draw = self._server_draws.get(key)
        if draw is None:
            if len(self._server_draws) >= _KEPT_DRAWS:
                self._server_draws.clear()
            draw = self._server_draws[key] = self._server_draw(busy_cores, controls, slowed)
        return draw

    def gpu(self, utilization: float, controls: Controls, clock: LimitedGpuWork | None = None) -> Draw:
        """Return the draw of one GPU."""
        key = (utilization, controls.gpu_cap_watts, clock)
        draw = self._gpu_draws.get(key)
        if draw is None:
            if len(self._gpu_draws) >= _KEPT_DRAWS:
                self._gpu_draws.clear()
            draw = self._gpu_draws[key] = self._gpu(utilization, controls, clock)
        return draw

    def wall_watts(self, gpu_watts: float) -> float:
        """Return the GPUs' watts with losses, and with what the server has for their sake."""
        return gpus_at_wall(gpu_watts, self._gpus_highest_watts)

    def _server_draw(self, busy_cores: float, controls: Controls, slowed: SlowedCores | None) -> ServerDraw:
        cpu, server = self._hardware.cpu, self._server
        assert cpu is not None, "machines have known CPUs"
        utilization = busy_cores / cpu.cores
        natural_watts, idle_watts = server.packages_at(utilization), server.idle_packages_watts
        if slowed is not None and busy_cores > 0.0:
            # Power above idle ~ frequency ^ (1 / exponent), as in `joulie_core.power.draw`.
            left = slowed.frequency_share ** (1.0 / self._curve.response.exponent)
            natural_watts -= (natural_watts - idle_watts) * (slowed.busy / busy_cores) * (1.0 - left)
        cap_watts = effective_cpu_cap(cpu, controls) * cpu.sockets
        throttled_share = controls.throttle_pct / 100.0
        draw = limited_draw(
            self._curve.response, natural_watts, idle_watts, cap_watts=cap_watts, throttled_share=throttled_share
        )
        return ServerDraw(server.wall_with(utilization, draw.watts), draw)

    def _gpu(self, utilization: float, controls: Controls, clock: LimitedGpuWork | None) -> Draw:
        gpu = self._hardware.gpu
        if gpu is None:
            return Draw(0.0, 1.0)
        if clock is None:
            return gpu_draw(gpu, utilization, controls)
        return gpu_draw(gpu, utilization, controls, clock_share=clock.clock_share, memory_bound=clock.memory_bound)
