"""Plans, with a decision that is given or recorded."""

from joulie_core.kinds.node_bmc import PowerState
from joulie_core.kinds.node_sleep_policy import SleepMode
from joulie_core.names import NodeName
from joulie_core.sleep import (
    NodePowerFacts,
    SleepNode,
    SleepPod,
    SleepReason,
    SleepRecord,
    SleepSettings,
    SleepState,
)
from joulie_operator.sleep.facts import SleepFacts
from joulie_operator.sleep.planner import UsablePolicy

NOW_S = 1_800_000_000.0
GOING = [SleepState.CORDONED, SleepState.DRAINING, SleepState.POWERING_OFF, SleepState.ASLEEP]
PENDING = (SleepPod(requests={"cpu": 1.0}),)


def record(state, sleeps=0):
    return SleepRecord(state=state, since_s=NOW_S - 60, reason=SleepReason.IDLE, sleeps=sleeps)


def node(name, **changes):
    power = NodePowerFacts(
        state=PowerState.ON, sampled_at_s=NOW_S, reachable=True, wake_proven=True, off_allowed=True, boot_s=30.0
    )
    known = {"group": "g", "free": {}, "idle_watts": 100.0, "ready": True, "protected_pods": 0, "power": power}
    return SleepNode(name=NodeName(name), **(known | changes))


def policy(name, *nodes, mode=SleepMode.ACT, settings=None, windows=()):
    return UsablePolicy(name, mode, settings or SleepSettings(), windows, frozenset(map(NodeName, nodes)), {}, {})


class Decisions:
    """Records what is asked, and answers with `states` of the nodes of the group that is asked about."""

    def __init__(self):
        self.asked = []
        self.states = {}

    def __call__(self, cluster, records, now_s, settings):
        self.asked.append((cluster, dict(records), settings))
        assert now_s == NOW_S
        return {each.name: record(self.states.get(each.name, SleepState.AWAKE)) for each in cluster.nodes}


def plan(planner, nodes, policies, records=None):
    facts = SleepFacts({each.name: each for each in nodes}, PENDING)
    known = {each.name: record(SleepState.AWAKE) for each in nodes} | (records or {})
    return planner.plan(facts, known, policies, NOW_S)


def by_name(cluster):
    return {each.name: each for each in cluster.nodes}
