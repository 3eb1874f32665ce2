"""The estimate of savings within a simulation, as the operator makes it: docs/decisions/0046-savings.md.

It sees what the operator sees: the hardware of the nodes, pods with their requests, the records of sleeping nodes, and
readings of BMCs. It knows neither what pods use nor how long they run, nor the models that the simulation draws by.
"""

from typing import Final

from joulie_core.savings import Lever, LeverRate, SavingsLedger
from joulie_core.savings.asleep import SleepingServer
from joulie_core.savings.estimator import score_rate, sleep_rate
from joulie_core.savings.node_loads import load_model
from joulie_core.savings.shadow import ShadowCluster
from joulie_core.savings.shadow_nodes import ShadowNode, ShadowPod
from joulie_sim.engine.machines import Machines
from joulie_sim.engine.node_resources import PlacementRequest
from joulie_sim.engine.node_sleep import NodeSleep
from joulie_sim.engine.running_nodes import RunningNodes

#: As the operator looks.
INTERVAL_S: Final = 30.0


class SavingsProbe:
    """The estimate of one arm; `ledger` has its sums, by the simulated time.

    Args:
        machines: the nodes.
        seed: of the choice among equal nodes.
    """

    def __init__(self, machines: Machines, seed: int = 0) -> None:
        self.ledger = SavingsLedger.begin(0.0)
        self.due_s = 0.0
        self._machines = machines
        self._shadow = ShadowCluster(seed)
        self._nodes: RunningNodes | None = None
        self._sleep: NodeSleep | None = None
        self._rates = {lever: LeverRate() for lever in Lever}
        for node in range(len(machines)):
            self._shadow.set_node(_shadow_node(machines, node))

    def watch(self, nodes: RunningNodes, sleep: NodeSleep | None) -> None:
        """Take what is observed."""
        self._nodes, self._sleep = nodes, sleep

    def started(self, job: int, node: int, request: PlacementRequest) -> None:
        """Take a pod that was bound to a node."""
        name = self._machines.names[node]
        pod = ShadowPod(name, request.cpu_milli, request.memory_bytes, float(request.gpus))
        self._shadow.place(str(job), pod)

    def ended(self, job: int) -> None:
        """Take a pod that has ended."""
        self._shadow.remove(str(job))

    def look(self, now_s: float) -> None:
        """Count what was saved since the last look, and estimate what is saved from now on."""
        self.due_s = now_s + INTERVAL_S
        self.ledger.add(self._rates, now_s)
        servers = (self._server(node) for node in range(len(self._machines)))
        self._rates = {
            Lever.SLEEP: sleep_rate(server for server in servers if server is not None),
            Lever.CAPS: LeverRate(),
            Lever.SCORE: score_rate(self._shadow, backlog=False),
        }

    def _server(self, node: int) -> SleepingServer | None:
        record = self._sleep.record(node) if self._sleep is not None else None
        if record is None or self._nodes is None:
            return None
        return SleepingServer(record.state, record.idle_watts, record.idle_measured, self._nodes.watts_of(node))


def _shadow_node(machines: Machines, node: int) -> ShadowNode:
    offered = machines.gpus[:, node].tolist()
    kind = next((name for name, count in zip(machines.gpu_resources, offered, strict=True) if count), "")
    cpu_milli, memory_bytes = machines.allocatable[:, node].tolist()
    return ShadowNode(
        name=machines.names[node],
        cpu_milli=cpu_milli,
        memory_bytes=memory_bytes,
        pods=machines.pods.item(node),
        gpus=float(max(offered, default=0)),
        gpu_kind=kind,
        zone=machines.zones[node],
        model=load_model(machines.groups[machines.group.item(node)].view),
    )
