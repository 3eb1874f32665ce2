"""One node and a planner of it, on a cluster in memory."""

import msgspec
from prometheus_client import CollectorRegistry

from joulie_api.failures import Failures
from joulie_api.wire import decode_node
from joulie_core.caps import CapSettings
from joulie_core.hardware.inventory import Inventory
from joulie_core.kinds.node_power_profile import NodePowerProfileSpec, OnLostControl
from joulie_core.names import NodeName
from joulie_core.policy import build_policy
from joulie_core.transition import NodeState
from joulie_operator.cluster import Cluster
from joulie_operator.notifications import TransitionMade
from joulie_operator.planner import NodePlanner
from joulie_operator.pods import PodDecoder
from joulie_operator.published import PublishedTarget
from joulie_operator.published_state import PublishedState
from joulie_testing.api import make_node, make_pod

INVENTORY = Inventory.load()
N1 = NodeName("n1")
SETTLE_S = 1.0
PERF, DRAIN, ECO = NodeState.ACTIVE_PERFORMANCE, NodeState.DRAINING_PERFORMANCE, NodeState.ACTIVE_ECO
PERFORMANCE_POD = PodDecoder()(msgspec.json.encode(make_pod(node="n1", workload_class="performance")))
HARDWARE = {"cpu_model": "AMD EPYC 7763", "cpu_sockets": 2, "cpu": 256}


def node(uid="uid-1", **fields):
    made = make_node("n1", **(HARDWARE | fields))
    made["metadata"]["uid"] = uid
    return decode_node(msgspec.json.encode(made))


class Share:
    """`static_partition` whose share a test can change."""

    def __init__(self, frac):
        self.name = "share"
        self.frac = frac
        self.contexts = []

    def plan(self, context):
        self.contexts.append(context)
        return build_policy("static_partition", {"static_hp_frac": self.frac}).plan(context)


class Pods:
    stale = False

    def is_stale(self):
        return self.stale


class World:
    """A planner and what surrounds it."""

    def __init__(self, *, frac=0.0, pods=0, target=None, settings=None, **fields):
        self.pod_watch = Pods()
        self.cluster = Cluster(
            INVENTORY, pods=self.pod_watch, on_change=lambda _change: None, failures=Failures(CollectorRegistry())
        )
        self.cluster.on_node("n1", None, node(**fields))
        self.share = Share(frac)
        self.targets = {} if target is None else {"n1": target}
        self.notified = []
        self.lifted = set()
        self.now = 100.0
        self.pods = 0
        for _ in range(pods):
            self.add_pod()
        self.planner = NodePlanner(
            self.cluster,
            self.share,
            settings or CapSettings(),
            reconcile_interval_s=60,
            settle_s=SETTLE_S,
            on_lost_control=OnLostControl.HOLD,
            published=PublishedState(self.targets, {}, clock=lambda: self.now, wall=lambda: self.now),
            lifted=lambda name: name in self.lifted,
        )

    def add_pod(self):
        self.cluster.on_pod(f"p{self.pods}", None, PERFORMANCE_POD)
        self.pods += 1

    def remove_pod(self):
        self.pods -= 1
        self.cluster.on_pod(f"p{self.pods}", PERFORMANCE_POD, None)

    def set_node(self, **fields):
        self.cluster.on_node("n1", self.cluster.nodes.get(N1), node(**fields))

    def plan(self):
        return self.planner.plan(wall=self.now)

    def desired(self):
        return self.planner.desired(N1, self.now, wall=self.now + 1000)

    def publish(self):
        """Decide, and commit as if everything had been written."""
        decision = self.desired()
        if decision is not None:
            self.planner.commit(decision, self.now)
            self.notified += decision.notifications
        return decision

    def plan_and_publish(self):
        self.plan()
        return self.publish()

    @property
    def transitions(self):
        return [each.transition.result for each in self.notified if isinstance(each, TransitionMade)]


def target(profile, *, draining=False, uid="uid-1"):
    return PublishedTarget(NodePowerProfileSpec(node_name="n1", profile=profile, draining=draining), uid)


def cpu_pct(decision):
    return decision.desired.target.cpu.package_power_cap_pct_of_max
