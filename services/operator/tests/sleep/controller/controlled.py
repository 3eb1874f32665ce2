"""A controller on recorded writes, on given objects and decisions."""

import json
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry
from services.operator.tests.sleep.sleep_objects import (
    OWN_TAINT,
    RECORD,
    STATE,
    owned_pod,
    seen_bmc,
    seen_cluster,
    seen_node,
)

from joulie_api.failures import Failures
from joulie_api.wire import decode_kind
from joulie_core.hardware.view import HardwareView
from joulie_core.kinds import NodeSleepPolicy
from joulie_core.kinds.node_hardware import Exactness
from joulie_core.names import NodeName
from joulie_core.sleep import SleepReason, SleepRecord, SleepState
from joulie_operator.sleep.controller import SleepController, SleepParts
from joulie_operator.sleep.metrics import SleepMetrics
from joulie_operator.sleep.planner import SleepPlan
from joulie_operator.sleep.pods import read_pod
from joulie_operator.sleep.records import stored_text
from joulie_operator.sleep.writer import SleepWriter

NOW_S = 1_800_000_000.0
N1, N2 = NodeName("n1"), NodeName("n2")


def record(state, **changes):
    return SleepRecord(state=state, since_s=NOW_S - 60, reason=SleepReason.IDLE, **changes)


@dataclass
class Api:
    """Records writes; `errors` are raised by the next writes of a kind of object, or `evict`."""

    made: list = field(default_factory=list)
    errors: dict = field(default_factory=dict)
    pods: list = field(default_factory=list)

    def _write(self, what, *request):
        self.made.append((what, *request))
        if self.errors.get(what):
            raise self.errors[what].pop(0)

    async def list_page(self, res, *, field_selector="", continue_token="", **_bounds):
        self.made.append(("list", field_selector))
        return json.dumps({"metadata": {}, "items": self.pods}).encode()

    async def patch(self, res, name, body):
        self._write(res.kind, name, body)

    async def apply(self, res, name, body, *, status=False):
        self._write(f"{res.kind} status", name, body)

    async def evict(self, name, namespace):
        self._write("evict", namespace, name)

    def of(self, what):
        return [tuple(request) for kind, *request in self.made if kind == what]


@dataclass
class Watches:
    nodes: dict = field(default_factory=dict)
    pods: dict = field(default_factory=dict)
    bmcs: dict = field(default_factory=dict)
    policies: dict = field(default_factory=dict)
    stale: str | None = None
    notify: object = None

    def seen(self):
        return seen_cluster(
            nodes=dict(self.nodes), pods=dict(self.pods), bmcs=dict(self.bmcs), policies=dict(self.policies)
        )

    def stale_reason(self):
        return self.stale

    def on_waiting_pod(self, notify):
        self.notify = notify


class Decided:
    """A planner whose next decisions are given; without one nothing is decided."""

    def __init__(self):
        self.records = {}
        self.seen = []
        self.asked = []
        self.recommended = {}
        self.error = None

    def plan(self, facts, records, policies, now_s):
        self.seen.append(dict(records))
        self.asked.append((facts, list(policies), now_s))
        if self.error is not None:
            raise self.error
        return SleepPlan(dict(self.records), self.recommended, {})


class World:
    def __init__(self, *, interval_s=10):
        self.api, self.watches, self.planner, self.events = Api(), Watches(), Decided(), []
        self.registry = CollectorRegistry()
        #: The nodes whose hardware was asked for, and what the attempt raises.
        self.hardware_read, self.hardware_errors = [], {}
        parts = SleepParts(
            watches=self.watches,
            writer=SleepWriter(self.api, self.api),
            metrics=SleepMetrics(self.registry),
            hardware=self._hardware,
            managed=lambda: [N1, N2],
            record_event=self.events.append,
            failures=Failures(self.registry),
            wall=lambda: NOW_S,
        )
        self.controller = SleepController(parts, interval_s=interval_s)
        self.real_planner, self.controller._planner = self.controller._planner, self.planner

    def _hardware(self, name):
        self.hardware_read.append(name)
        if name in self.hardware_errors:
            raise self.hardware_errors[name]
        return HardwareView(None, None, 0, Exactness.GENERIC, "family")

    def node(self, state=SleepState.AWAKE, name="n1", *, version="41", shown=True, **changes):
        """Put a Node that is as it has to be in a state."""
        sleeping = state in {SleepState.CORDONED, SleepState.DRAINING, SleepState.POWERING_OFF, SleepState.ASLEEP}
        tainted = sleeping or state is SleepState.WAKING
        words = {SleepState.POWERING_OFF: "powering-off"}
        self.watches.nodes[name] = seen_node(
            name,
            version=version,
            taints=[OWN_TAINT] if tainted else [],
            labels={} if state is SleepState.AWAKE else {STATE: words.get(state, state.value.lower())},
            annotations={RECORD: stored_text(record(state, **changes))},
            conditions=[{"type": "joulie.io/Asleep", "status": "False", "reason": state.value}] if shown else [],
        )

    def bmc(self, name="n1", **fields):
        self.watches.bmcs[name] = seen_bmc(name, **fields)

    def pod(self, name, node="n1", **pod):
        self.watches.pods[name] = read_pod(json.dumps(owned_pod(name, node, **pod)).encode())

    def policy(self, name, **spec):
        raw = {"metadata": {"name": name, "generation": 4}, "spec": {"nodeSelector": {"pool": "a"}} | spec}
        self.watches.policies[name] = decode_kind(NodeSleepPolicy)(json.dumps(raw).encode())

    def decide(self, **records):
        self.planner.records = {NodeName(name): each for name, each in records.items()}

    async def step(self):
        await self.controller.step()

    def powers(self):
        return [(name, body.get("spec", {}).get("desiredPower")) for name, body in self.api.of("NodeBMC")]

    def defects(self, work):
        return self.registry.get_sample_value("joulie_internal_errors_total", {"work": work})

    def evictions(self, result):
        return self.registry.get_sample_value("joulie_operator_sleep_evictions_total", {"result": result})
