"""A node of the table: what is watched of it, and what follows from that."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_hardware import NodeHardwareStatus
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_core.powerest.marginal import NodePower
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.scoring.filter import FilterResult, filter_node
from joulie_core.scoring.state import TwinSnapshot


@dataclass(slots=True)
class NodeEntry:
    """One node; only the table changes it."""

    name: NodeName
    node: Node | None = None
    hardware: NodeHardwareStatus | None = None
    power: NodePower = field(default_factory=NodePower)
    #: Watts of pods with this power by demand, of the latest demands.
    watts: dict[PodDemand, float] = field(default_factory=dict)
    #: Watts of one CPU and of one GPU of a performance pod; None until they are needed.
    unit_watts: tuple[float, float] | None = None
    #: As watched, without pods in flight.
    twin: TwinSnapshot | None = None
    #: The twin with the pods in flight; None without a twin.
    state: TwinSnapshot | None = None
    #: The state that is in the sums of the cluster; None where it is stale, or the node sleeps and supplies nothing.
    counted: TwinSnapshot | None = None
    #: Whether `state` must not be believed; True without a twin.
    stale: bool = True
    #: Of performance pods, when the entry last changed.
    judged: FilterResult | None = None

    @property
    def labels(self) -> Mapping[str, str]:
        """The node's labels, as far as the node is known."""
        return self.node.labels if self.node else {}

    def judge(self, workload_class: WorkloadClass, labels: Mapping[str, str] | None = None) -> FilterResult:
        """Judge the node for a pod, by other labels than the watched ones if given."""
        return filter_node(
            workload_class,
            schedulable_class=self.state.schedulable_class if self.state else None,
            stale=self.stale,
            labels=self.labels if labels is None else labels,
        )
