"""An invented cluster behind the live page: nodes in racks, their targets, twins and pods, and what changes them."""

import asyncio
import random
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec
from prometheus_client import CollectorRegistry

from joulie_api.addresses import Address
from joulie_api.failures import Failures
from joulie_api.http_server import HttpLog, HttpServer
from joulie_api.wire import decode_node
from joulie_core import labels
from joulie_core.hardware.inventory import Inventory
from joulie_core.kinds.base import Profile
from joulie_core.kinds.held_devices import DeviceReport
from joulie_core.kinds.node_power_profile import NodePowerProfileSpec, PolicyNote
from joulie_core.names import NodeName
from joulie_core.timestamps import rfc3339
from joulie_operator.cluster import Cluster
from joulie_operator.pods import PodSummary
from joulie_operator.published import PublishedCondition, PublishedTarget, PublishedTwin
from joulie_operator.ui.feed import LiveFeed
from joulie_operator.ui.server import PageServer
from joulie_testing.api import make_node

WALL = 1_800_000_000.0
HOST = "127.0.0.1"
REFUSED = PublishedCondition("Enforced", "False", "PermissionDenied", "cpu: rapl error, cannot write")


@dataclass
class Watch:
    name: str
    reason: str | None = None

    def is_stale(self):
        return self.reason is not None

    def stale_reason(self):
        return self.reason


def target(name, node_class="performance", reason="densest node of its hardware family", conditions=()):
    spec = NodePowerProfileSpec(
        node_name=name,
        profile=Profile.PERFORMANCE if node_class == "performance" else Profile.ECO,
        draining=node_class == "draining",
        policy=PolicyNote(name="queue_aware_v1", reason=reason),
    )
    return PublishedTarget(spec, "uid", tuple(conditions))


class InventedCluster:
    """What the watches of an operator would bring; `wall` is the time."""

    def __init__(self, *, wall=lambda: WALL, interval_s=0.01, inventory=None, savings=None, domains=None):
        self.wall = wall
        self.leading = True
        self.pods_watch = Watch("pods")
        self.targets, self.twins, self.pods = {}, {}, {}
        #: GPUs by node, as the agents report them.
        self.devices = {}
        self.failures = Failures(CollectorRegistry())
        self.cluster = Cluster(
            inventory or Inventory.load(), pods=self.pods_watch, on_change=lambda _: None, failures=self.failures
        )
        self.feed = LiveFeed(
            self.cluster,
            self.targets,
            self.twins,
            watches=(self.pods_watch,),
            is_leading=lambda: self.leading,
            failures=self.failures,
            wall=wall,
            savings=savings,
            domains=domains,
            interval_s=interval_s,
        )

    def put_node(self, name, *, rack="rack-1", sleep_state="", **node):
        known = {labels.RACK: rack, labels.SLEEP_STATE: sleep_state}
        own = {key: value for key, value in known.items() if value}
        made = decode_node(msgspec.json.encode(make_node(name, labels=own, **node)))
        old = self.cluster.nodes.get(NodeName(name))
        for on_node in (self.cluster.on_node, self.feed.on_object):
            on_node(name, old, made)

    def remove_node(self, name):
        old = self.cluster.nodes[NodeName(name)]
        for on_node in (self.cluster.on_node, self.feed.on_object):
            on_node(name, old, None)

    def put_target(self, name, node_class="performance", reason="densest node of its hardware family", conditions=()):
        old, self.targets[name] = self.targets.get(name), target(name, node_class, reason, conditions)
        self.feed.on_target(name, old, self.targets[name])

    def put_twin(self, name, node_class="performance", *, watts=300.0, capped_watts=400.0, age_s=0.0, measured=True):
        old = self.twins.get(name)
        updated = rfc3339(self.wall() - age_s)
        self.twins[name] = PublishedTwin(node_class, updated, "uid", watts if measured else None, watts, capped_watts)
        self.feed.on_object(name, old, self.twins[name])

    def put_pod(self, key, node=None, *, performance=False):
        summary = PodSummary(NodeName(node) if node else None, performance=performance, cpu_cores=1, gpus=0)
        old, self.pods[key] = self.pods.get(key), summary
        for on_pod in (self.cluster.on_pod, self.feed.on_pod):
            on_pod(key, old, summary)

    @asynccontextmanager
    async def served(self, *, host=HOST, **page):
        """Serve the page on a free port, and feed it; yields its base URL."""
        server = HttpServer(PageServer(self.feed, self.devices.get, **page).application(), HttpLog())
        port = await server.start(Address(host, 0))
        feeding = asyncio.create_task(self.feed.run())
        try:
            yield f"http://{host}:{port}"
        finally:
            feeding.cancel()
            await server.close()


def devices(*rows):
    """Return the report of GPUs; each row has fields of its own."""
    made = [{"uuid": f"GPU-{index}", "index": index, **row} for index, row in enumerate(rows)]
    return tuple(DeviceReport.model_validate(each) for each in made)


def fill(cluster, count, *, seed=1, rack_nodes=40):
    """Put so many nodes: most at work, some draining, silent, unmeasured or refusing their caps."""
    chance = random.Random(seed)
    for number in range(count):
        name = f"node-{number:04}" if count > 1000 else f"node-{number}"
        cluster.put_node(name, rack=f"rack-{number // rack_nodes + 1}" if number % 97 else "")
        put_at_random(cluster, name, chance)
    for number in range(count // 20):
        cluster.put_pod(f"waiting-{number}", performance=True)


def put_at_random(cluster, name, chance):
    """Give a node a class, a draw and pods at random."""
    node_class = chance.choices(["performance", "eco", "draining"], [40, 52, 8])[0]
    capped = {"performance": 700, "draining": 700, "eco": 420}[node_class]
    reason = f"{'within' if node_class == 'performance' else 'beyond'} the nodes that demand needs"
    conditions = (REFUSED,) if chance.random() < 0.02 else ()
    cluster.put_target(name, node_class, reason, conditions)
    if chance.random() < 0.98:
        watts = None if chance.random() < 0.02 else capped * chance.betavariate(4, 2.5) * 1.08
        age_s = 900 if chance.random() < 0.02 else chance.random() * 80
        cluster.put_twin(name, node_class, watts=watts, capped_watts=capped, age_s=age_s)
    for number in range(chance.randrange(8)):
        cluster.put_pod(f"{name}-{number}", name, performance=node_class != "eco" and number < 3)
