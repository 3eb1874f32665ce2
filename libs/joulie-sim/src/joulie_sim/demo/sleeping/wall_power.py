"""Watts of a node at the wall, by what the live simulator says of its devices.

The live simulator has CPU packages and GPUs. Sleep saves the whole server, with memory, fans and the losses of its
supplies: these are added by the models of docs/models.md, those of the discrete-event simulator.
"""

from collections.abc import Callable, Sequence

from joulie_core.hardware.inventory import Inventory
from joulie_devcluster.control_plane.nodes import NodeClass
from joulie_sim.engine.machines import HardwareGroup, Machines, machines_of
from joulie_sim.engine.node_lists import nodes_of_classes
from joulie_sim.engine.power_model import NodePowerModel
from joulie_sim.engine.running_nodes import calibrated_models
from joulie_sim.physics.parts import Controls


class WallPower:
    """The models of all nodes by name, `models` by group of hardware; no device has a limit."""

    def __init__(
        self,
        classes: Sequence[NodeClass],
        models: Callable[[Machines], Sequence[NodePowerModel]] = calibrated_models,
    ) -> None:
        machines = machines_of(nodes_of_classes(classes), Inventory.load())
        by_group = models(machines)
        self._models: dict[str, tuple[HardwareGroup, NodePowerModel]] = {
            name: (machines.groups[index], by_group[index])
            for name, index in zip(machines.names, machines.group.tolist(), strict=True)
        }

    @property
    def names(self) -> tuple[str, ...]:
        """All nodes."""
        return tuple(self._models)

    def watts(self, node: str, *, cpu_utilization: float, gpu_watts: float) -> float:
        """Return the power of a server that is on; `gpu_watts` are those of its GPUs together."""
        group, model = self._models[node]
        cpu = group.hardware.cpu
        assert cpu is not None, "machines have known CPUs"
        server = model.server(cpu_utilization * cpu.cores, Controls())
        return server.wall_watts + model.wall_watts(gpu_watts)

    def has_gpus(self, node: str) -> bool:
        """Return whether a server has GPUs."""
        return self._models[node][0].hardware.gpu is not None

    def idle_watts(self, node: str) -> float:
        """Return the power of a server that is on and has no work."""
        group, model = self._models[node]
        gpus = group.hardware.gpu.count if group.hardware.gpu is not None else 0
        return self.watts(node, cpu_utilization=0.0, gpu_watts=gpus * model.gpu(0.0, Controls()).watts)
