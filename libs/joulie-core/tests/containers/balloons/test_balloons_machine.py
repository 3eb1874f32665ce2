"""Any configuration, any machine, any sequence of events."""

from dataclasses import replace

import hypothesis.strategies as st
from hypothesis import HealthCheck, assume, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pydantic import ValidationError

from joulie_core.containers.balloons import BalloonsContainerPolicy
from joulie_core.containers.container import (
    ContainerId,
    ContainerInfo,
    ContainerResources,
    PodInfo,
    PodSandboxId,
    QosClass,
)
from joulie_core.containers.policy import PolicyConfigError
from joulie_core.kinds.balloons_policy import BalloonsPolicySpec
from joulie_testing.core.machines import GIB, MachineShape, shapes

NAMESPACES = ("kube-system", "default", "batch-a", "batch-b", "web")
TYPE_NAMES = ("reserved", "alpha", "beta", "gamma", "default")
ANNOTATION = "balloon.balloons.resource-policy.nri.io"

requests = st.sampled_from((0, 0, 1, 250, 999, 1000, 1001, 1500, 2000, 3700))
resources = st.builds(
    ContainerResources,
    cpu_request_milli=requests,
    memory_limit_bytes=st.one_of(st.none(), st.sampled_from((GIB // 2, 2 * GIB, 5 * GIB))),
)
annotations = st.dictionaries(
    st.sampled_from(
        (
            f"{ANNOTATION}/pod",
            f"{ANNOTATION}/container.main",
            "cpu.preserve.resource-policy.nri.io",
            "memory.preserve.resource-policy.nri.io",
            "hide-hyperthreads.resource-policy.nri.io",
            "memory-type.resource-policy.nri.io",
        )
    ),
    st.sampled_from(("true", "false", "alpha", "beta", "gamma", "unknown", "pmem", "hbm,dram")),
    max_size=2,
)


@st.composite
def containers(draw):
    pod = PodInfo(
        id=PodSandboxId(f"pod-{draw(st.integers(0, 5))}"),
        uid="uid",
        namespace=draw(st.sampled_from(NAMESPACES)),
        name="same",
        qos=draw(st.sampled_from(QosClass)),
        labels={"app": draw(st.sampled_from(("a", "b")))},
        annotations=draw(annotations),
    )
    found = draw(resources)
    # Some are created at the same time; then the id decides.
    return lambda number: ContainerInfo(
        id=ContainerId(f"c{number:03}"), pod=pod, name="main", created_ns=number // 2, resources=found
    )


@st.composite
def types(draw):
    name = draw(st.sampled_from(TYPE_NAMES))
    least, most = draw(st.sampled_from((0, 0, 1, 2, 3))), draw(st.sampled_from((0, 0, -1, 1, 2, 4)))
    few, many = draw(st.sampled_from((0, 0, 1, 2))), draw(st.sampled_from((0, 0, 1, 2, 3)))
    found = {
        "name": name,
        "namespaces": draw(st.lists(st.sampled_from(("batch-*", "web", "default")), max_size=2, unique=True)),
        "groupBy": draw(st.sampled_from(("", "${pod/labels/app}"))),
        "maxCPUs": most,
        "minBalloons": min(few, many) if many else few,
        "maxBalloons": many,
        "preferSpreadingPods": draw(st.booleans()),
        "preferPerNamespaceBalloon": draw(st.booleans()),
        "preferNewBalloons": draw(st.booleans()),
        "hideHyperthreads": draw(st.booleans()),
        "shareIdleCPUsInSame": draw(st.sampled_from(("", "", "system", "package", "numa", "core", "thread"))),
        "allocatorPriority": draw(st.sampled_from(("high", "normal", "low", "none"))),
        "memoryTypes": draw(st.sampled_from(([], ["DRAM"], ["PMEM", "DRAM"], ["HBM"]))),
    }
    if name != "reserved":
        found["minCPUs"] = min(least, most) if most > 0 else least if most == 0 else 0
    # A type that comes later in this order, so that none is a part of itself.
    later = TYPE_NAMES[TYPE_NAMES.index(name) + 1 :]
    if later and draw(st.sampled_from((True, False, False, False))):
        components = draw(st.lists(st.sampled_from(later), min_size=1, max_size=3))
        found["components"] = [{"balloonType": each} for each in components]
        found["componentCreation"] = draw(st.sampled_from(("", "all", "balance-balloons")))
        return found
    return found | {
        "cpuClass": draw(st.sampled_from(("", "performance", "eco", "turbo"))),
        "loads": draw(st.lists(st.sampled_from(("avx", "membw")), max_size=2, unique=True)),
        "allocatorTopologyBalancing": draw(st.booleans()),
        "preferSpreadOnPhysicalCores": draw(st.booleans()),
        "preferIsolCpus": draw(st.booleans()),
        "preferCoreType": draw(st.sampled_from(("", "efficient", "performance"))),
        "preferCloseToDevices": draw(
            st.sampled_from(
                ([], ["/sys/devices/system/node/node1"], ["/sys/devices/system/cpu/cpu0/cache/index2", "/x"])
            )
        ),
    }


def specs(reserved=("1", "0", "1500m", "cpuset:0", "cpuset:0-1")):
    """Return specs that are valid; options that only restrict each other are drawn again."""
    return st.builds(
        dict,
        reservedResources=st.fixed_dictionaries({"cpu": st.sampled_from(reserved)}),
        balloonTypes=st.lists(types(), max_size=4, unique_by=lambda each: each["name"]),
        idleCPUClass=st.sampled_from(("", "eco")),
        pinCPU=st.sampled_from((True, True, True, False)),
        pinMemory=st.sampled_from((True, True, True, False)),
        allocatorTopologyBalancing=st.booleans(),
        cpuClasses=st.just([{"name": "turbo"}, {"name": "default"}]),
        loadClasses=st.just(
            [
                {"name": "avx", "level": "core"},
                {"name": "membw", "level": "l2cache", "overloadsLevelInBalloon": True},
            ]
        ),
    )


def differences(one, other):
    return {key: (one.get(key), other.get(key)) for key in one.keys() | other.keys() if one.get(key) != other.get(key)}


class Balloons(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.containers = {}
        self.created = 0

    @initialize(shape=shapes(most_cores_per_node=4), options=specs())
    def start(self, shape: MachineShape, options):
        self.topology, self.available = shape.topology(), None
        self.policy, self.options = self.build(options)
        assume(self.policy)
        self.state = self.policy.synchronize([], {}).state
        self.empty = self.state

    def build(self, options):
        """Return the policy and the options; types that do not fit the machine or each other are left out."""
        available = {"availableResources": {"cpu": self.available}} if self.available else {}
        while True:
            try:
                spec = BalloonsPolicySpec.model_validate(options | available)
                return BalloonsContainerPolicy(spec, self.topology), options
            except (PolicyConfigError, ValidationError):
                if not options["balloonTypes"]:
                    return None, options
                options = options | {"balloonTypes": options["balloonTypes"][1:]}

    def listed(self, data):
        return data.draw(st.permutations(list(self.containers.values())))

    def synchronize(self, data, grants):
        listed = self.listed(data)
        result = self.policy.synchronize(listed, grants)
        assert result == self.policy.synchronize(list(reversed(listed)), grants)
        self.containers = {name: each for name, each in self.containers.items() if name in result.state.placements}
        assert result.state.placements.keys() | result.rejected.keys() == {each.id for each in listed}
        self.state = result.state

    @rule(drawn=st.lists(containers(), min_size=1, max_size=6))
    def allocate(self, drawn):
        for make in drawn:
            self.created += 1
            container = make(self.created)
            result = self.policy.allocate(self.state, container)
            assert result == self.policy.allocate(self.state, container)
            if result.rejected:
                assert result.state is self.state
                assert list(result.rejected) == [container.id]
            else:
                self.containers[container.id] = container
                assert container.id in result.state.placements
            self.state = result.state
            self.policy.check(self.state)

    @precondition(lambda self: self.containers)
    @rule(data=st.data())
    def release(self, data):
        name = data.draw(st.sampled_from(sorted(self.containers)))
        del self.containers[name]
        self.state = self.policy.release(self.state, name).state

    @rule()
    def release_unknown(self):
        assert self.policy.release(self.state, ContainerId("unknown")).state == self.state

    @precondition(lambda self: self.containers)
    @rule(data=st.data(), found=resources)
    def update(self, data, found):
        name = data.draw(st.sampled_from(sorted(self.containers)))
        container = replace(self.containers[name], resources=found)
        result = self.policy.update(self.state, container)
        if result.rejected:
            assert result.state is self.state
        else:
            self.containers[name] = container
            home = self.state.homes.get(name)
            # A container that is not in a balloon of its type may move to one.
            if home and self.state.balloons[home].seats[name].type == home.type:
                assert result.state.homes[name] == home
        self.state = result.state

    @precondition(lambda self: self.containers)
    @rule(data=st.data(), meanwhile=st.lists(containers(), max_size=2))
    def start_again(self, data, meanwhile):
        """A container that is started again is in its balloon with all CPUs or refused, and no other moves."""
        name = data.draw(st.sampled_from(sorted(self.containers)))
        grant, home = self.policy.grants(self.state)[name], self.state.homes.get(name)
        cpus = self.state.balloons[home].cpus if home else None
        container = self.containers.pop(name)
        self.state = self.policy.release(self.state, name).state
        self.allocate(meanwhile)
        self.created += 1
        container = replace(container, id=ContainerId(f"c{self.created:03}"), created_ns=self.created // 2)
        result = self.policy.restore(self.state, container, grant)
        if result is None:
            return
        assert result.state.homes[container.id] == home
        assert result.state.balloons[home].cpus == cpus
        assert {key for key, each in self.state.balloons.items() if result.state.balloons[key] is not each} <= {home}
        self.containers[container.id] = container
        self.state = result.state

    @rule(data=st.data())
    def restart(self, data):
        before = self.state
        self.synchronize(data, self.policy.grants(before))
        assert differences(self.state.placements, before.placements) == {}
        if self.containers:
            assert differences(self.state.balloons, before.balloons) == {}
            assert self.state == before

    @precondition(lambda self: self.containers)
    @rule(data=st.data())
    def restart_after_some_have_left(self, data):
        left = data.draw(st.sets(st.sampled_from(sorted(self.containers))))
        grants = self.policy.grants(self.state)
        for name in left:
            del self.containers[name]
        self.synchronize(data, grants)

    @rule(data=st.data())
    def start_without_grants(self, data):
        self.synchronize(data, {})

    @rule(data=st.data(), options=specs())
    def reconfigure(self, data, options):
        policy, options = self.build(options)
        if policy is None:
            return
        grants = self.policy.grants(self.state)
        self.policy, self.options = policy, options
        self.synchronize(data, grants)
        self.empty = self.policy.synchronize([], {}).state

    @rule(data=st.data())
    def change_available_cpus(self, data):
        before = self.available
        chosen = data.draw(st.sets(st.sampled_from(sorted(self.topology.online)), min_size=1))
        self.available = data.draw(st.sampled_from((None, f"cpuset:{','.join(map(str, sorted(chosen)))}")))
        grants = self.policy.grants(self.state)
        policy, options = self.build(self.options)
        if policy is None:
            self.available = before
            return
        self.policy, self.options = policy, options
        self.synchronize(data, grants)
        self.empty = self.policy.synchronize([], {}).state

    @invariant()
    def the_state_is_consistent(self):
        if hasattr(self, "policy"):
            self.policy.check(self.state)
            zones = {zone.name for zone in self.policy.zones(self.state)}
            assert {each.zone for each in self.state.placements.values()} <= zones | {"preserved"}

    def teardown(self):
        if not hasattr(self, "state"):
            return
        for name in list(self.containers):
            self.state = self.policy.release(self.state, name).state
            self.policy.check(self.state)
        assert not self.state.placements
        assert not self.state.memory.grants
        if any("components" in each for each in self.options["balloonTypes"]):
            # Components count towards the limits of their types; which balloons exist depends on which came first.
            return
        sizes = sorted((key.type, len(each.cpus)) for key, each in self.state.balloons.items())
        assert sizes == sorted((key.type, len(each.cpus)) for key, each in self.empty.balloons.items())


TestBalloons = Balloons.TestCase
TestBalloons.settings = settings(
    max_examples=40, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
