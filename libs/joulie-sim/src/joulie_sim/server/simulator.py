"""The simulated cluster by Kubernetes objects: takes nodes and pods, returns completions and answers.

Guarantees that a pod's work runs once: a completed pod is not started again, even if its status is still Running.
Synchronous; the caller provides the clock. After a restart progress, energy and controls are lost: running pods start
their work from the beginning, and agents set their caps again.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from joulie_core.demand import WorkloadClass, workload_class
from joulie_core.node import Node
from joulie_core.pod import Pod
from joulie_sim.physics.cluster import SimulatedCluster
from joulie_sim.physics.job import Completion
from joulie_sim.physics.node import SimulatedNode
from joulie_sim.physics.parts import Hardware
from joulie_sim.server.control import ControlAnswer, ControlRequest, perform
from joulie_sim.server.ledger import EnergyLedger, WorkLedger, class_of
from joulie_sim.server.pods import job_of


@dataclass(frozen=True, slots=True)
class Finished:
    """A pod whose work is done; `uid` distinguishes it from a later pod of the same name."""

    namespace: str
    name: str
    uid: str
    completion: Completion


class Simulator:
    """All nodes and their pods. `clock` gives simulated seconds; `on_finished` must not block."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        hardware_of: Callable[[Node], Hardware],
        on_finished: Callable[[Finished], None],
    ) -> None:
        self.energy = EnergyLedger()
        self.work = {workload: WorkLedger() for workload in WorkloadClass}
        self._cluster = SimulatedCluster()
        self._clock = clock
        self._hardware_of = hardware_of
        self._on_finished = on_finished
        #: Running pods by node and key, also of nodes that are not known yet.
        self._pods: dict[str, dict[str, Pod]] = {}
        #: UIDs by key of pods that have completed and are still Running on the API server.
        self._finished: dict[str, str] = {}

    @property
    def now_s(self) -> float:
        """Simulated seconds."""
        return self._clock()

    def node_changed(self, name: str, old: Node | None, new: Node | None) -> None:
        """Handle a node that was added (`old` None), changed, or deleted (`new` None)."""
        if new is None:
            self._settle(self._cluster.advance(self.now_s))
            gone = self._cluster.drop_node(name)
            if gone is not None:
                self.energy.close(name, gone.energy.joules)
            return
        if old is None or (old.labels, old.allocatable, old.capacity) != (new.labels, new.allocatable, new.capacity):
            known = name in self._cluster.nodes
            self._settle(self._cluster.put_node(name, self._hardware_of(new), self.now_s))
            drawn_joules = self._cluster.nodes[name].energy.joules
            self.energy.move(name, class_of(new.labels), drawn_joules)
            if not known:
                for pod in list(self._pods.get(name, {}).values()):
                    self._start(name, pod)

    def pod_changed(self, key: str, old: Pod | None, new: Pod | None) -> None:
        """Handle a pod that was added (`old` None), changed, or deleted (`new` None)."""
        running = new is not None and new.phase == "Running" and new.node_name is not None
        if old is not None and old.node_name is not None and (not running or _replaced(old, new)):
            # Settled before the pod is removed: it may have completed by now.
            self._settle(self._cluster.stop_job(old.node_name, key, self.now_s))
            self._pods.get(old.node_name, {}).pop(key, None)
        if new is None or not new.active or self._finished.get(key, new.uid) != new.uid:
            self._finished.pop(key, None)
        if running and key not in self._finished:
            assert new is not None
            assert new.node_name is not None
            pods = self._pods.setdefault(new.node_name, {})
            if key not in pods:
                pods[key] = new
                self._start(new.node_name, new)

    def control(self, name: str, request: ControlRequest) -> ControlAnswer | None:
        """Perform a control request; return None if the node does not exist."""
        node = self._cluster.nodes.get(name)
        if node is None:
            return None
        outcome = perform(request, node.hardware, node.controls)
        self._settle(self._cluster.control(name, outcome.controls, self.now_s))
        return outcome

    def read(self, name: str) -> SimulatedNode | None:
        """Return one node, integrated up to now; None if it does not exist."""
        node = self._cluster.nodes.get(name)
        if node is not None:
            self._settle(self._cluster.advance_node(name, self.now_s))
        return node

    def read_all(self) -> Iterable[SimulatedNode]:
        """Return all nodes, integrated up to now, and update the energy by class."""
        self._settle(self._cluster.advance(self.now_s))
        for node in self._cluster:
            self.energy.settle(node.name, node.energy.joules)
        return self._cluster

    def complete_due(self) -> None:
        """Report the jobs that have completed by now."""
        self._settle(self._cluster.complete_due(self.now_s))

    def _start(self, name: str, pod: Pod) -> None:
        job = job_of(pod)
        if job is not None:
            self._settle(self._cluster.start_job(name, job, self.now_s))

    def _settle(self, completions: Iterable[Completion]) -> None:
        for completion in completions:
            pod = self._pods[completion.node].pop(completion.key)
            self._finished[completion.key] = pod.uid
            self.work[workload_class(pod)].add(work_s=completion.work_s, slowdown=completion.slowdown)
            self._on_finished(Finished(pod.namespace, pod.name, pod.uid, completion))


def _replaced(old: Pod, new: Pod | None) -> bool:
    """Return whether another pod has the name now."""
    return new is not None and (old.uid, old.node_name) != (new.uid, new.node_name)
