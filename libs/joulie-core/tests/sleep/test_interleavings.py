"""Sleeping nodes in a small cluster with a scheduler, budgets, BMCs and kubelets, under events in any order.

What must never happen is checked whenever a server loses its power and after each decision; what must happen in the
end, after a time without faults. A restart keeps of the records what the operator stores: all but `idle_since_s`.
"""

from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from joulie_core.kinds.node_bmc import DesiredPower, PowerState
from joulie_core.sleep import (
    NodePowerFacts,
    Shutdown,
    SleepCluster,
    SleepNode,
    SleepPod,
    SleepSettings,
    SleepState,
    decide,
    intent_of,
)

STEP_S = 30.0
BOOT_S = 120.0
SETTINGS = SleepSettings(
    min_awake={"count": 2, "spare": 1},
    idle_seconds=60.0,
    min_awake_seconds=60.0,
    consolidation={"mode": "Act", "below_percent": 60},
    drain_timeout_seconds=120.0,
    off_timeout_seconds=120.0,
    boot_timeout_seconds=240.0,
    boot_attempts=3,
    back_off_seconds=60.0,
)
CORES = 8.0
NAMES = tuple(f"n{number}" for number in range(8))
CONTROL_PLANE = NAMES[0]
NEVER = NAMES[4]
_GOING = frozenset({SleepState.CORDONED, SleepState.DRAINING, SleepState.POWERING_OFF, SleepState.ASLEEP})


@dataclass
class Pod:
    cores: float
    #: A label of the only node that it may run on; empty for any.
    only: str = ""
    #: A budget permits no eviction.
    guarded: bool = False
    #: Nothing would replace it.
    single: bool = False
    #: It tolerates every taint, as what `kubectl debug node` makes: it comes to nodes that shut down.
    tolerates: bool = False
    node: str | None = None

    @property
    def fit(self):
        return SleepPod({"cpu": self.cores}, node_selector={"host": self.only} if self.only else {})


@dataclass
class Machine:
    """A server with its BMC and its kubelet."""

    on: bool = True
    ready: bool = True
    #: When a shutdown that was begun ends; nothing stops it. Until then BMC and kubelet say that the server is on.
    shuts_at_s: float | None = None
    shutdown_s: float = 60.0
    boot: int = 0
    #: What its NodeBMC remembers of the last power-off.
    mark: Shutdown | None = None
    desired: DesiredPower = DesiredPower.UNMANAGED
    #: Since when its BMC is asked for that.
    asked_at_s: float = 0.0
    bmc_answers: bool = True
    sampled_at_s: float = 0.0
    ignores_off: bool = False
    boots: bool = True
    cordoned: bool = False
    #: What kube-scheduler knows of that: as it was a step ago.
    known_cordoned: bool = False
    unschedulable: bool = False
    wake_requested: bool = False
    maintenance: bool = False
    cleared: bool = False


@dataclass
class Cluster:
    """Eight servers in two zones; in each step they move, kube-scheduler places pods, and the controller decides."""

    now_s: float = 0.0
    machines: dict = field(default_factory=lambda: {name: Machine() for name in NAMES})
    pods: list = field(default_factory=list)
    records: dict = field(default_factory=dict)
    #: Whether the controller runs.
    runs: bool = True

    def seen(self, name):
        machine = self.machines[name]
        number = NAMES.index(name)
        here = [pod for pod in self.pods if pod.node == name]
        state = PowerState.ON if machine.on else PowerState.OFF
        return SleepNode(
            name=name,
            group="gpu" if number % 4 == 3 else "cpu",
            zone="east" if number < 4 else "west",
            labels={"host": name},
            free={"cpu": CORES - sum(pod.cores for pod in here)},
            idle_watts=100.0 + number,
            control_plane=name == CONTROL_PLANE,
            unschedulable=machine.unschedulable,
            ready=machine.ready,
            cordoned=machine.cordoned,
            protected_pods=sum(pod.single for pod in here),
            movable_pods=tuple(pod.fit for pod in here if not pod.single),
            wake_requested=machine.wake_requested,
            maintenance=machine.maintenance,
            boot_id=f"boot-{machine.boot}",
            quarantine_cleared=machine.cleared,
            power=NodePowerFacts(
                state=state if machine.bmc_answers else PowerState.UNKNOWN,
                sampled_at_s=machine.sampled_at_s,
                reachable=machine.bmc_answers,
                wake_proven=True,
                off_allowed=name != NEVER,
                boot_s=BOOT_S,
                switched_off=machine.mark,
                on_taken=machine.bmc_answers and machine.desired is DesiredPower.ON,
            ),
        )

    def step(self):
        self.now_s += STEP_S
        for name, machine in self.machines.items():
            self._move(name, machine)
        self._schedule()
        for machine in self.machines.values():
            machine.known_cordoned = machine.cordoned
        if self.runs:
            self._decide()

    def _move(self, name, machine):
        """Let the server do what its BMC was asked for; a BMC that does not answer is asked for nothing."""
        if machine.shuts_at_s is not None and self.now_s >= machine.shuts_at_s:
            self._cut(name, machine)
        if not machine.bmc_answers:
            machine.asked_at_s = self.now_s
            return
        machine.sampled_at_s = self.now_s
        waited_s = self.now_s - machine.asked_at_s
        if machine.desired is DesiredPower.ON and not machine.on and waited_s >= BOOT_S:
            machine.on, machine.ready, machine.boot = True, machine.boots, machine.boot + 1
        elif machine.desired is DesiredPower.OFF and machine.on and waited_s >= STEP_S and not machine.ignores_off:
            if machine.shuts_at_s is None:
                machine.shuts_at_s = self.now_s + machine.shutdown_s
            if self.now_s >= machine.shuts_at_s:
                self._cut(name, machine)

    def _cut(self, name, machine):
        under = [pod for pod in self.pods if pod.node == name and not pod.tolerates]
        assert not under, f"{name} is cut off under {under}"
        assert name not in {CONTROL_PLANE, NEVER}
        machine.on = machine.ready = False
        machine.shuts_at_s = None

    def _schedule(self):
        for pod in self.pods:
            if pod.node is not None:
                continue
            nodes = [self.seen(name) for name in NAMES if self._takes(name, pod)]
            fitting = [node for node in nodes if node.free["cpu"] >= pod.cores]
            if fitting:
                pod.node = max(fitting, key=lambda node: node.free["cpu"]).name

    def _takes(self, name, pod):
        machine = self.machines[name]
        shut = (machine.known_cordoned or machine.unschedulable or name == CONTROL_PLANE) and not pod.tolerates
        return machine.ready and not shut and pod.only in {"", name}

    def _decide(self):
        before = self.records
        nodes = [self.seen(name) for name in NAMES]
        pending = [pod.fit for pod in self.pods if pod.node is None]
        self.records = decide(SleepCluster(nodes=nodes, pending=pending), before, self.now_s, SETTINGS)
        self._check(before, {node.name: node for node in nodes})
        for name, record in self.records.items():
            self._carry_out(name, record, before.get(name))

    def _carry_out(self, name, record, before):
        """Do what the operator does: taint, evict, and power off at the pass after the record was stored."""
        machine, intent, tainted = self.machines[name], intent_of(record.state), self.machines[name].cordoned
        machine.cordoned = intent.cordon
        machine.cleared = False
        if intent.evict:
            for pod in [pod for pod in self.pods if pod.node == name and not pod.guarded and not pod.single]:
                pod.node = None
        stored = before is not None and intent_of(before.state).power is DesiredPower.OFF
        power = DesiredPower.UNMANAGED if machine.maintenance else intent.power
        permitted = power is not DesiredPower.OFF or (stored and self.seen(name).empty)
        if permitted and machine.desired is not power:
            machine.desired, machine.asked_at_s = power, self.now_s
            if power is DesiredPower.OFF:
                assert tainted, name
                machine.mark = Shutdown(self.now_s, f"boot-{machine.boot}")
            elif machine.mark is not None:
                asked = record.shutdown or machine.mark
                machine.mark = Shutdown(self.now_s, asked.boot_id)
        if record.state is SleepState.AWAKE and machine.on and machine.bmc_answers:
            machine.mark = None

    def _check(self, before, nodes):
        assert self.records[CONTROL_PLANE].state is SleepState.AWAKE
        assert self.records[NEVER].state is SleepState.AWAKE
        for zone in ("east", "west"):
            members = [name for name, node in nodes.items() if node.zone == zone]
            asleep = [name for name in members if self._sleeps(name)]
            assert 2 * len(asleep) <= len(members), asleep
        for name, record in self.records.items():
            old = before.get(name)
            if record.state in {SleepState.AWAKE, SleepState.QUARANTINED}:
                assert self.machines[name].shuts_at_s is None, name
            if record.state is SleepState.AWAKE and self.machines[name].mark is not None:
                assert self.machines[name].on or not nodes[name].power.reachable, name
            if record.state is SleepState.POWERING_OFF and (old is None or old.state is not record.state):
                assert nodes[name].empty, name
            if record.state is SleepState.CORDONED and (old is None or old.state is not SleepState.CORDONED):
                group = [node for node in nodes.values() if node.group == nodes[name].group]
                left = [node for node in group if self._serves(node)]
                assert len(left) >= SETTINGS.min_awake.count, name
                assert sum(node.empty for node in left) >= SETTINGS.min_awake.spare or not nodes[name].empty, name

    def _sleeps(self, name):
        """Return whether the node is on the way to sleep, and not between two attempts to boot it."""
        record = self.records[name]
        return record.state in _GOING and not record.failed_boots

    def _serves(self, node):
        state = self.records[node.name].state
        return state in {SleepState.AWAKE, SleepState.QUARANTINED} and node.ready and not node.unschedulable


class Events(Cluster):
    """A cluster with what may happen to it."""

    def pods_come(self, cores, guarded):
        self.pods += [Pod(each, guarded=guarded) for each in cores]

    def pod_for(self, name, guarded):
        self.pods.append(Pod(2.0, only=name, guarded=guarded))

    def _shutting(self, name):
        """Return a node that shuts down, where there is one: few histories would meet it by chance."""
        return next((each for each, machine in self.machines.items() if machine.shuts_at_s is not None), name)

    def tolerating_pod(self, name):
        self.pods.append(Pod(1.0, only=self._shutting(name), single=True, tolerates=True))

    def maintenance(self, name, begins):
        self.machines[name].maintenance = begins

    def shutdowns(self, name, seconds):
        self.machines[name].shutdown_s = seconds

    def taken_back(self, name):
        """Let a person remove everything that says that the node sleeps."""
        name = self._shutting(name)
        self.records.pop(name, None)
        machine = self.machines[name]
        machine.cordoned, machine.desired = False, DesiredPower.UNMANAGED

    def single_pod(self, cores):
        self.pods.append(Pod(cores, single=True))

    def pods_end(self, number):
        del self.pods[:number]

    def budgets(self, guarded):
        for pod in self.pods:
            pod.guarded = guarded

    def bmc(self, name, answers):
        self.machines[name].bmc_answers = answers

    def off(self, name, ignored):
        self.machines[name].ignores_off = ignored

    def boots(self, name, come):
        self.machines[name].boots = come

    def kubelet(self, name, ready):
        machine = self.machines[name]
        machine.ready = ready and machine.on

    def cordon(self, name, unschedulable):
        self.machines[name].unschedulable = unschedulable

    def wake(self, name, requested):
        self.machines[name].wake_requested = requested

    def clear(self, name):
        record = self.records.get(name)
        self.machines[name].cleared = record is not None and record.state is SleepState.QUARANTINED

    def power_button(self, name):
        machine = self.machines[name]
        if not machine.on:
            machine.on, machine.ready, machine.boot = True, True, machine.boot + 1

    def restart(self):
        """Let the controller end; the next one knows what is stored."""
        self.records = {name: replace(record, idle_since_s=None) for name, record in self.records.items()}

    def controller(self, runs):
        self.runs = runs


_NODES = st.sampled_from(NAMES)
#: Names of methods, with their arguments.
_EVENTS = st.one_of(
    st.tuples(st.just("pods_come"), st.lists(st.sampled_from([1.0, 4.0, 8.0]), min_size=1, max_size=4), st.booleans()),
    *(
        st.tuples(st.just(each), _NODES, st.booleans())
        for each in ("pod_for", "bmc", "off", "boots", "kubelet", "cordon", "wake", "maintenance")
    ),
    st.tuples(st.just("single_pod"), st.sampled_from([1.0, 8.0])),
    st.tuples(st.just("pods_end"), st.integers(1, 6)),
    *(st.tuples(st.just(each), st.booleans()) for each in ("budgets", "controller")),
    *(st.tuples(st.just(each), _NODES) for each in ("clear", "power_button", "tolerating_pod", "taken_back")),
    st.tuples(st.just("shutdowns"), _NODES, st.sampled_from([0.0, 60.0, 180.0])),
    st.tuples(st.just("restart")),
)


#: Long ones, and time after each event: nodes sleep only after some minutes.
_HISTORIES = st.lists(st.tuples(_EVENTS, st.integers(0, 6)), min_size=10, max_size=40)


def after(events):
    """Return a cluster to which these events have happened."""
    cluster = Events()
    for (name, *arguments), steps in events:
        getattr(cluster, name)(*arguments)
        for _ in range(steps):
            cluster.step()
    return cluster


def calm_down(cluster):
    """End all faults and all pods, clear quarantines, and let everything that is under way end."""
    cluster.runs = True
    cluster.pods.clear()
    for machine in cluster.machines.values():
        machine.bmc_answers = machine.boots = True
        machine.ignores_off = machine.unschedulable = machine.wake_requested = machine.maintenance = False
        machine.ready, machine.shutdown_s = machine.on, 0.0
    # Longer than a node can still be under way, with the boots that had failed before and their back-offs.
    for _ in range(80):
        for name in NAMES:
            cluster.clear(name)
        cluster.step()


@settings(max_examples=80, deadline=None)
@given(_HISTORIES)
def test_nothing_forbidden_happens_and_every_sleeping_node_wakes_for_a_pod_that_fits_only_there(events):
    cluster = after(events)
    calm_down(cluster)
    asleep = [name for name, record in cluster.records.items() if record.state is SleepState.ASLEEP]
    pods = [Pod(2.0, only=name) for name in asleep]
    cluster.pods += pods
    # Its boot time, and one minute.
    for _ in range(int((BOOT_S + 60.0) / STEP_S) + 1):
        cluster.step()
    assert {pod.only: pod.node for pod in pods} == {name: name for name in asleep}


@settings(max_examples=30, deadline=None)
@given(_HISTORIES)
def test_idle_nodes_sleep_again_once_all_faults_are_over(events):
    """What never sleeps breaks no promise: this keeps the other properties from holding for that reason."""
    cluster = after(events)
    calm_down(cluster)
    states = {name: record.state for name, record in cluster.records.items()}
    asleep = {name for name, state in states.items() if state is SleepState.ASLEEP}
    # Half of each zone, of which the group of two has none.
    assert len(asleep) == 4, states
