"""The steps of one pass, on recorded writes: what is stored, when power is requested, what failed writes hold up."""

import asyncio
import json
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry
from services.operator.tests.sleep.sleep_objects import OWN_TAINT, RECORD, STATE, owned_pod, seen_bmc, seen_node
from structlog.testing import capture_logs

from joulie_api.errors import ApiError, Conflict, NotFound, NotLeader, TooManyRequests
from joulie_api.failures import Failures
from joulie_api.wire import decode_kind
from joulie_core.hardware.view import HardwareView
from joulie_core.kinds import NodeSleepPolicy
from joulie_core.kinds.node_hardware import Exactness
from joulie_core.names import NodeName
from joulie_core.sleep import SleepReason, SleepRecord, SleepState
from joulie_core.timestamps import rfc3339
from joulie_operator.sleep import controller
from joulie_operator.sleep.controller import SleepController, SleepParts
from joulie_operator.sleep.metrics import SleepMetrics
from joulie_operator.sleep.objects import read_pod
from joulie_operator.sleep.planner import SleepPlan
from joulie_operator.sleep.records import lasting, stored_text
from joulie_operator.sleep.watches import WatchedCluster
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
        return WatchedCluster(dict(self.nodes), dict(self.pods), {}, dict(self.bmcs), dict(self.policies))

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
        return SleepPlan(dict(self.records), self.recommended)


class World:
    def __init__(self, *, interval_s=10):
        self.api, self.watches, self.planner, self.events = Api(), Watches(), Decided(), []
        self.registry = CollectorRegistry()
        parts = SleepParts(
            watches=self.watches,
            writer=SleepWriter(self.api, self.api),
            metrics=SleepMetrics(self.registry),
            hardware=lambda _: HardwareView(None, None, 0, Exactness.GENERIC, "family"),
            managed=lambda: [N1, N2],
            record_event=self.events.append,
            failures=Failures(self.registry),
            wall=lambda: NOW_S,
        )
        self.controller = SleepController(parts, interval_s=interval_s)
        self.real_planner, self.controller._planner = self.controller._planner, self.planner

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


@pytest.fixture
def world():
    return World()


# --- passes ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def one_pass(monkeypatch):
    """Ends `run` where it waits for the next pass."""

    async def run(world):
        async def end():
            raise asyncio.CancelledError

        with monkeypatch.context() as patch:
            patch.setattr(world.controller._pacing, "next_pass", end)
            with pytest.raises(asyncio.CancelledError):
                await world.controller.run()

    return run


async def test_nothing_is_decided_or_written_while_a_watch_may_be_out_of_date(world, one_pass):
    world.node(SleepState.POWERING_OFF)
    world.bmc(status={"powerState": "On"})
    world.watches.stale = "pods: no contact for 40 s"
    await one_pass(world)
    assert (world.planner.seen, world.api.made) == ([], [])
    world.watches.stale = None
    await one_pass(world)
    assert len(world.planner.seen) == 1


async def test_a_decision_is_made_of_facts_policies_and_the_time(world):
    until = rfc3339(NOW_S + 5, "seconds")
    for name, pool in (("n1", "a"), ("n2", "b"), ("n3", "a")):
        labels = {"pool": pool}
        world.watches.nodes[name] = seen_node(name, labels=labels, annotations={"joulie.io/awake-until": until})
    world.policy("p", mode="Observe")
    assert world.controller.statuses == {}
    await world.step()
    ((facts, (policy,), now_s),) = world.planner.asked
    assert now_s == NOW_S
    assert (policy.name, policy.nodes) == ("p", {"n1"}), "n3 is not managed"
    assert facts.nodes[N1].wake_requested is True
    assert facts.nodes[N1].group == "family"
    ((name, body),) = world.api.of("NodeSleepPolicy status")
    assert (name, body["status"]["observedGeneration"], body["status"]["nodes"]["selected"]) == ("p", 4, 1)
    assert world.controller.statuses["p"].observed_generation == 4


async def test_a_pass_that_fails_for_an_unexpected_reason_is_counted_as_a_defect(world, one_pass):
    world.planner.error = OverflowError("a defect")
    await one_pass(world)
    assert world.defects("decide about sleep") == 1


async def test_the_log_says_once_why_nothing_is_decided_and_when_decisions_go_on(world, one_pass):
    with capture_logs() as logs:
        for age_s in (40, 50):
            world.watches.stale = f"pods: no contact for {age_s} s"
            await one_pass(world)
        world.watches.stale = None
        await one_pass(world)
    assert [(each["event"], each.get("problem")) for each in logs] == [
        ("no decision about sleep", "pods: no contact for 40 s"),
        ("decisions about sleep go on", None),
    ]
    assert logs[0]["cause"] == "stale"


async def test_a_controller_without_policies_wakes_a_node_that_sleeps(world):
    world.controller._planner = world.real_planner
    world.node(SleepState.ASLEEP)
    world.bmc(desired="Off", requested="Off", status={"powerState": "Off"})
    await world.step()
    ((name, body),) = world.api.of("Node")
    assert (name, body["metadata"]["labels"]) == ("n1", {STATE: "waking"})
    assert world.powers() == [("n1", "On")]


async def test_the_status_of_a_policy_has_the_nodes_that_are_recommended_for_it(world):
    world.watches.nodes["n1"] = seen_node("n1", labels={"pool": "a"})
    world.policy("p", mode="Recommend")
    world.planner.recommended = {"p": frozenset({N1})}
    await world.step()
    ((name, body),) = world.api.of("NodeSleepPolicy status")
    assert (name, body["status"]["recommendation"]["nodes"]) == ("p", ["n1"])


async def test_a_policy_that_cannot_be_used_has_a_status_that_says_why(world):
    window = {"days": ["Mon"], "start": "07:00", "end": "19:00", "timeZone": "Europe/Roma", "minAwake": 1}
    world.policy("p", mode="Act", schedules=[window])
    await world.step()
    ((name, body),) = world.api.of("NodeSleepPolicy status")
    accepted = next(each for each in body["status"]["conditions"] if each["type"] == "Accepted")
    assert (name, body["status"]["observedGeneration"], accepted["status"]) == ("p", 4, "False")
    assert "schedules[0].timeZone: 'Europe/Roma'" in accepted["message"]
    assert accepted["lastTransitionTime"] == rfc3339(NOW_S, "seconds")


async def test_a_status_that_cannot_be_made_is_a_defect_and_holds_no_other_up(world, monkeypatch):
    world.policy("p", mode="Act")
    world.policy("q", mode="Act")
    real = controller.policy_status

    def failing(policy, *args):
        return 1 / 0 if policy.name == "p" else real(policy, *args)

    monkeypatch.setattr(controller, "policy_status", failing)
    with capture_logs() as logs:
        await world.step()
    assert world.defects("status of a policy") == 1
    assert [each["policy"] for each in logs if each["event"] == "internal error, will be repeated"] == ["p"]
    assert [name for name, _ in world.api.of("NodeSleepPolicy status")] == ["q"]


# --- writes that fail -------------------------------------------------------------------------------------------------

#: Kind of request, its name in the log, and what it is about.
WRITES = [
    ("Node", "record", {"node": "n1"}),
    ("Node status", "condition", {"node": "n1"}),
    ("NodeBMC", "power", {"node": "n1"}),
    ("NodeSleepPolicy status", "status", {"policy": "p"}),
]


def to_be_written(world, what):
    """Let one pass send a request of that kind, and no other one fail."""
    world.node(SleepState.WAKING, shown=what != "Node status")
    if what == "Node":
        world.decide(n1=record(SleepState.AWAKE))
    elif what == "NodeBMC":
        world.bmc()
    elif what == "NodeSleepPolicy status":
        world.policy("p", mode="Act")


@pytest.mark.parametrize(("what", "write", "subject"), WRITES)
async def test_a_write_that_fails_is_in_the_log_once_with_what_it_is_about_until_it_succeeds(
    world, what, write, subject
):
    to_be_written(world, what)
    world.api.errors[what] = [ApiError(500, "", "broken")] * 2
    with capture_logs() as logs:
        for _ in range(3):
            await world.step()
    found = [each for each in logs if each["event"].startswith("sleep write")]
    assert [each["event"] for each in found] == ["sleep write failed, will be repeated", "sleep write succeeded"]
    assert "broken" in found[0]["problem"]
    for each in found:
        assert {"write": write, **subject}.items() <= each.items()


@pytest.mark.parametrize(
    ("what", "work", "subject"),
    [(what, "store sleep record" if what == "Node" else f"sleep {write}", about) for what, write, about in WRITES],
)
async def test_a_write_that_fails_for_an_unexpected_reason_is_a_defect_of_that_object(world, what, work, subject):
    to_be_written(world, what)
    world.api.errors[what] = [OverflowError("a defect")]
    with capture_logs() as logs:
        await world.step()
    assert world.defects(work) == 1
    (found,) = (each for each in logs if each["event"] == "internal error, will be repeated")
    assert subject.items() <= found.items()


# --- records ----------------------------------------------------------------------------------------------------------


async def test_a_decision_is_made_on_the_records_of_the_nodes(world):
    world.node(SleepState.ASLEEP, sleeps=3)
    world.watches.nodes["n2"] = seen_node("n2")
    await world.step()
    assert world.planner.seen == [{N1: record(SleepState.ASLEEP, sleeps=3), N2: SleepRecord(since_s=0.0)}]


async def test_a_change_of_state_is_stored_counted_and_an_event(world):
    world.node(SleepState.AWAKE)
    world.decide(n1=record(SleepState.CORDONED))
    await world.step()
    ((name, body),) = world.api.of("Node")
    assert (name, body["metadata"]["labels"]) == ("n1", {STATE: "cordoned"})
    assert [event.reason for event in world.events] == ["NodeCordonedForSleep"]
    labels = {"from_state": "Awake", "to_state": "Cordoned", "reason": "idle"}
    assert world.registry.get_sample_value("joulie_operator_sleep_transitions_total", labels) == 1


async def test_a_record_that_changes_within_its_state_is_stored_without_an_event(world):
    world.node(SleepState.AWAKE)
    world.decide(n1=record(SleepState.AWAKE, not_before_s=NOW_S + 60))
    await world.step()
    assert len(world.api.of("Node")) == 1
    assert world.events == []


async def test_since_when_a_node_is_idle_is_remembered_without_a_write(world):
    world.node(SleepState.AWAKE)
    idle = record(SleepState.AWAKE, idle_since_s=NOW_S)
    world.decide(n1=idle)
    await world.step()
    await world.step()
    assert world.api.of("Node") == []
    assert world.planner.seen[1] == {N1: idle}


async def test_what_is_remembered_of_a_node_without_a_record_counts_while_it_is_awake(world):
    world.watches.nodes["n1"] = seen_node("n1")
    idle = SleepRecord(since_s=0.0, idle_since_s=NOW_S)
    world.decide(n1=idle)
    await world.step()
    await world.step()
    assert world.planner.seen[1] == {N1: idle}


async def test_a_record_that_others_have_removed_with_the_taint_is_gone(world):
    """What remains is the mark of the NodeBMC."""
    world.node(SleepState.ASLEEP)
    world.bmc()
    await world.step()
    world.watches.nodes["n1"] = seen_node("n1", version="50")
    await world.step()
    assert world.planner.seen[1] == {N1: SleepRecord(since_s=0.0)}


async def test_a_record_that_another_process_has_written_counts(world):
    world.node(SleepState.ASLEEP)
    await world.step()
    world.node(SleepState.WAKING, version="50")
    await world.step()
    assert world.planner.seen[1] == {N1: record(SleepState.WAKING)}


async def test_until_a_write_is_seen_the_written_record_counts_and_no_other_is_written_over_it(world):
    world.node(SleepState.AWAKE)
    world.decide(n1=record(SleepState.CORDONED))
    await world.step()
    world.decide(n1=record(SleepState.DRAINING))
    world.pod("web")
    await world.step()
    assert world.planner.seen[1] == {N1: record(SleepState.CORDONED)}
    assert len(world.api.of("Node")) == 1
    assert len(world.events) == 1
    assert world.api.of("evict") == [], "the drain is not stored"
    world.node(SleepState.CORDONED, version="42")
    await world.step()
    assert len(world.api.of("Node")) == 2


@pytest.mark.parametrize("error", [Conflict(409, "Conflict", "changed"), ApiError(500, "", "broken")])
async def test_a_record_that_could_not_be_stored_is_not_carried_out_and_decided_anew(world, error):
    world.node(SleepState.ASLEEP)
    world.bmc(desired="Off", requested="Off", status={"powerState": "Off"})
    world.decide(n1=record(SleepState.WAKING))
    world.api.errors["Node"] = [error]
    await world.step()
    assert world.powers() == []
    assert world.events == []
    await world.step()
    assert world.planner.seen[1] == {N1: record(SleepState.ASLEEP)}
    assert world.powers() == [("n1", "On")]


async def test_a_record_that_could_not_be_stored_holds_no_other_node_up(world):
    world.node(SleepState.AWAKE)
    world.node(SleepState.AWAKE, "n2")
    world.decide(n1=record(SleepState.CORDONED), n2=record(SleepState.CORDONED))
    world.api.errors["Node"] = [ApiError(500, "", "broken")]
    await world.step()
    assert [event.subject.name for event in world.events] == ["n2"]


@pytest.mark.parametrize("what", ["Node", "Node status", "NodeBMC", "evict"])
async def test_a_process_that_lost_the_lease_writes_nothing_more(world, what):
    world.node(SleepState.DRAINING, shown=what != "Node status")
    world.bmc(desired="On", requested="On")
    world.pod("web")
    if what == "Node":
        world.decide(n1=record(SleepState.AWAKE))
    world.api.errors[what] = [NotLeader("gone")]
    with pytest.raises(NotLeader):
        await world.step()
    assert world.api.made[-1][0] == what


async def test_a_node_whose_record_could_not_be_stored_holds_up_no_power_request_of_others(world):
    world.node(SleepState.AWAKE)
    world.node(SleepState.WAKING, "n2")
    world.bmc("n1")
    world.bmc("n2")
    world.decide(n1=record(SleepState.CORDONED))
    world.api.errors["Node"] = [Conflict(409, "Conflict", "changed")]
    await world.step()
    assert world.powers() == [("n2", "On")]


async def test_what_is_remembered_beside_a_written_record_is_kept_until_the_write_is_seen(world):
    world.node(SleepState.AWAKE, shown=False)
    world.decide(n1=record(SleepState.CORDONED))
    await world.step()
    world.decide(n1=record(SleepState.CORDONED, idle_since_s=NOW_S))
    await world.step()
    await world.step()
    assert world.planner.seen[2] == {N1: record(SleepState.CORDONED, idle_since_s=NOW_S)}


# --- power ------------------------------------------------------------------------------------------------------------


async def test_power_is_cut_only_at_the_pass_after_the_record_was_stored(world):
    world.node(SleepState.DRAINING)
    world.bmc(status={"powerState": "On"})
    world.decide(n1=record(SleepState.POWERING_OFF))
    await world.step()
    assert world.powers() == []
    world.decide()
    world.node(SleepState.POWERING_OFF, version="42")
    await world.step()
    assert world.powers() == [("n1", "Off")]
    (selector,) = world.api.of("list")[-1]
    assert [made[0] for made in world.api.made][-2:] == ["list", "NodeBMC"]
    assert selector.startswith("spec.nodeName=n1,")


@pytest.mark.parametrize("owner", ["ReplicaSet", "Job", None])
async def test_power_is_not_cut_under_a_pod_that_the_watch_has_not_seen(world, owner):
    world.node(SleepState.POWERING_OFF)
    world.bmc(status={"powerState": "On"})
    world.api.pods = [owned_pod("late", owner=owner)]
    await world.step()
    assert world.powers() == []
    world.api.pods = [owned_pod("agent", owner="DaemonSet")]
    await world.step()
    assert world.powers() == [("n1", "Off")]


@pytest.mark.parametrize(("state", "asks"), [("Off", False), ("On", True), ("Unknown", True)])
async def test_pods_are_not_asked_for_where_the_server_is_off_already(world, state, asks):
    world.node(SleepState.ASLEEP)
    world.bmc(status={"powerState": state})
    await world.step()
    assert bool(world.api.of("list")) is asks
    assert world.powers() == [("n1", "Off")]


async def test_a_power_off_that_is_requested_already_costs_no_request(world):
    world.node(SleepState.POWERING_OFF)
    world.bmc(desired="Off", requested="Off", status={"powerState": "On"})
    await world.step()
    assert world.api.made == []


async def test_a_persons_on_is_not_turned_into_off(world):
    world.node(SleepState.ASLEEP)
    world.bmc(desired="On", status={"powerState": "Off"})
    await world.step()
    assert world.powers() == []


async def test_a_persons_off_is_taken_over_for_a_node_that_is_to_be_off(world):
    world.node(SleepState.ASLEEP)
    world.bmc(desired="Off", status={"powerState": "Off"})
    await world.step()
    assert world.powers() == [("n1", "Off")]


async def test_a_node_that_wakes_is_powered_on_and_one_that_is_awake_left_alone(world):
    world.node(SleepState.WAKING)
    world.node(SleepState.AWAKE, "n2")
    world.bmc("n1", desired="Off", requested="Off")
    world.bmc("n2", desired="On", requested="On")
    await world.step()
    assert world.powers() == [("n1", "On"), ("n2", None)]


async def test_a_server_that_was_switched_off_and_whose_node_is_gone_is_powered_on(world):
    world.bmc("gone", desired="Off", requested="Off")
    await world.step()
    assert world.powers() == [("gone", "On")]


async def test_the_request_for_a_server_that_is_on_and_whose_node_is_gone_is_withdrawn(world):
    world.bmc("gone", desired="On", requested="On")
    await world.step()
    assert world.powers() == [("gone", None)]


async def test_a_power_request_that_fails_holds_no_other_up_and_is_repeated(world):
    for name in ("n1", "n2"):
        world.node(SleepState.WAKING, name)
        world.bmc(name)
    world.api.errors["NodeBMC"] = [Conflict(409, "Conflict", "changed")]
    await world.step()
    assert [name for name, _ in world.powers()] == ["n1", "n2"]
    await world.step()
    assert [name for name, _ in world.powers()] == ["n1", "n2", "n1", "n2"]


async def test_the_condition_of_every_node_is_shown(world):
    world.node(SleepState.ASLEEP, shown=False)
    await world.step()
    ((name, body),) = world.api.of("Node status")
    assert (name, body["status"]["conditions"][0]["status"]) == ("n1", "True")


# --- evictions --------------------------------------------------------------------------------------------------------


async def test_pods_that_move_are_evicted_from_nodes_that_drain_and_no_others(world):
    world.node(SleepState.DRAINING)
    world.node(SleepState.CORDONED, "n2")
    world.pod("agent", owner="DaemonSet")
    world.pod("web", namespace="team")
    world.pod("job", owner="Job")
    world.pod("elsewhere", "n2")
    ending = owned_pod("ending")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.watches.pods["ending"] = read_pod(json.dumps(ending).encode())
    await world.step()
    assert world.api.of("evict") == [("team", "web")]
    assert world.evictions("evicted") == 1


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (TooManyRequests(429, "TooManyRequests", "budget"), "blocked"),
        (NotFound(404, "NotFound", "gone"), "gone"),
        (ApiError(500, "", "broken"), "failed"),
    ],
)
async def test_an_eviction_that_fails_is_counted_and_holds_no_other_up(world, error, result):
    world.node(SleepState.DRAINING)
    world.pod("a")
    world.pod("b")
    world.api.errors["evict"] = [error]
    await world.step()
    assert [name for _, name in world.api.of("evict")] == ["a", "b"]
    assert (world.evictions(result), world.evictions("evicted")) == (1, 1)


async def test_an_eviction_that_a_budget_holds_up_is_in_the_log_once_with_its_pod_until_it_succeeds(world):
    world.node(SleepState.DRAINING)
    world.pod("web", namespace="team")
    world.api.errors["evict"] = [TooManyRequests(429, "TooManyRequests", f"budget {each}") for each in range(2)]
    with capture_logs() as logs:
        for _ in range(3):
            await world.step()
    subject = {"pod": "web", "namespace": "team", "node": "n1"}
    found = [each for each in logs if each["event"].startswith("sleep write")]
    assert [each["event"] for each in found] == ["sleep write failed, will be repeated", "sleep write succeeded"]
    assert ({"cause": "budget"} | subject).items() <= found[0].items()
    assert "budget 0" in found[0]["problem"]
    assert subject.items() <= found[1].items()


async def test_an_eviction_that_is_refused_is_in_the_log_with_its_pod(world):
    world.node(SleepState.DRAINING)
    world.pod("web", namespace="team")
    world.api.errors["evict"] = [ApiError(500, "", "broken")]
    with capture_logs() as logs:
        await world.step()
    (found,) = (each for each in logs if each["event"] == "sleep write failed, will be repeated")
    assert {"pod": "web", "namespace": "team", "node": "n1", "cause": "ApiError"}.items() <= found.items()


async def test_an_eviction_that_fails_for_an_unexpected_reason_is_a_defect_and_not_counted_as_made(world):
    world.node(SleepState.DRAINING)
    world.pod("a")
    world.pod("b")
    world.api.errors["evict"] = [OverflowError("a defect")]
    with capture_logs() as logs:
        await world.step()
    assert [name for _, name in world.api.of("evict")] == ["a", "b"]
    assert (world.defects("evict pod"), world.evictions("evicted")) == (1, 1)
    (found,) = (each for each in logs if each["event"] == "internal error, will be repeated")
    assert {"pod": "a", "namespace": "default", "node": "n1"}.items() <= found.items()


def test_what_lasts_of_a_record_is_what_is_stored():
    assert lasting(record(SleepState.AWAKE, idle_since_s=NOW_S)) == record(SleepState.AWAKE)
