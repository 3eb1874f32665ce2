"""Random machines, configurations and sequences of events; what must hold after each."""

import random
from dataclasses import replace

from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from joulie_core.containers.container import (
    ContainerId,
    ContainerInfo,
    ContainerResources,
    PodInfo,
    PodSandboxId,
    QosClass,
    TopologyHint,
)
from joulie_core.containers.idset import IdSet
from joulie_core.containers.policy import ColdStartEnded, PolicyConfigError, PowerProfileChanged, RebalanceRequested
from joulie_core.containers.topology_aware.policy import TopologyAwareContainerPolicy
from joulie_core.kinds.topology_aware_policy import BurstLevel, TopologyAwarePolicySpec
from joulie_testing.core.machines import GIB, machines

SUFFIX = "resource-policy.nri.io"
ANNOTATIONS = st.fixed_dictionaries(
    {},
    optional={
        f"prefer-shared-cpus.{SUFFIX}": st.sampled_from(["true", "false", "maybe"]),
        f"prefer-isolated-cpus.{SUFFIX}": st.sampled_from(["true", "false"]),
        f"require-isolated-cpus.{SUFFIX}": st.sampled_from(["true", "false"]),
        f"prefer-reserved-cpus.{SUFFIX}/pod": st.sampled_from(["true", "false"]),
        f"prefer-cpu-priority.{SUFFIX}": st.sampled_from(["high", "low", "none"]),
        f"cpu.preserve.{SUFFIX}": st.just("true"),
        f"memory.preserve.{SUFFIX}": st.just("true"),
        f"memory-type.{SUFFIX}": st.sampled_from(["dram", "pmem", "hbm", "dram,pmem", "tape"]),
        f"cold-start.{SUFFIX}": st.sampled_from(["60s", "duration: 1m", "soon"]),
        f"unlimited-burstable.{SUFFIX}": st.sampled_from([*BurstLevel]),
        f"hide-hyperthreads.{SUFFIX}": st.just("true"),
        f"strict.topologyhints.{SUFFIX}": st.just("true"),
        f"pick-resources-by-hints.{SUFFIX}": st.just("true"),
        f"{SUFFIX}/affinity": st.just("{main: [main]}"),
        f"{SUFFIX}/anti-affinity": st.just("{main: [main]}"),
    },
)
HINTS = [
    (),
    (),
    (),
    (TopologyHint(provider="device:/dev/x", cpus="0-3"),),
    (TopologyHint(provider="mount:/x", nodes="0"), TopologyHint(provider="resource:y", cpus="bad")),
]
MILLI = st.one_of(st.sampled_from([0, 100, 500, 1000, 1500, 2000, 2500, 3000, 4000, 8000]), st.integers(0, 5000))
BYTES = st.sampled_from([0, GIB // 8, GIB, 3 * GIB, 20 * GIB, 80 * GIB])


@st.composite
def resources(draw: st.DrawFn, qos: QosClass) -> ContainerResources:
    if qos is QosClass.BEST_EFFORT:
        return ContainerResources()
    milli, size = draw(MILLI), draw(BYTES)
    if qos is QosClass.GUARANTEED:
        return ContainerResources(
            cpu_request_milli=milli, cpu_limit_milli=milli, memory_request_bytes=size, memory_limit_bytes=size
        )
    return ContainerResources(
        cpu_request_milli=milli,
        cpu_limit_milli=draw(st.sampled_from([None, milli + 500, 100_000])),
        memory_request_bytes=size,
        memory_limit_bytes=draw(st.sampled_from([None, size + GIB])),
    )


@st.composite
def container(draw: st.DrawFn, number: int) -> ContainerInfo:
    qos = draw(st.sampled_from(QosClass))
    pod = draw(st.integers(0, 3))
    return ContainerInfo(
        id=ContainerId(f"{draw(st.integers(0, 9))}-{number}"),
        pod=PodInfo(
            id=PodSandboxId(f"pod-{pod}"),
            uid=f"uid-{pod}",
            # Pods of one name are others: only ids are unique.
            name="pod",
            namespace=draw(st.sampled_from(["default", "default", "default", "kube-system", "infra-a"])),
            qos=qos,
            annotations=draw(ANNOTATIONS) if draw(st.booleans()) else {},
        ),
        name="main",
        created_ns=draw(st.integers(0, 3)),
        resources=draw(resources(qos)),
        hints=draw(st.sampled_from(HINTS)),
    )


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "pinCPU": st.booleans(),
        "pinMemory": st.booleans(),
        "preferIsolatedCPUs": st.booleans(),
        "preferSharedCPUs": st.booleans(),
        "colocatePods": st.booleans(),
        "colocateNamespaces": st.booleans(),
        "reservedPoolNamespaces": st.just(["infra-*"]),
        "unlimitedBurstable": st.sampled_from([*BurstLevel]),
        "sharedPoolCPUClass": st.just("standard"),
        "defaultExclusiveCPUClass": st.just("performance"),
        "reservedPoolCPUClass": st.just("eco"),
        "reservedResources": st.sampled_from([{"cpu": 1}, {"cpu": "1500m"}, {"cpu": "0"}]),
    },
)


class TopologyAwareMachine(RuleBasedStateMachine):
    """A node whose containers come and go."""

    @initialize(topology=machines(most_cores_per_node=3), options=OPTIONS, data=st.data())
    def start(self, topology, options, data):
        self.topology = topology
        self.options = options
        self.number = 0
        self.containers = {}
        self.policy = self.configured(data)
        assume(self.policy)
        self.state = self.policy.synchronize([], {}).state

    def configured(self, data):
        online = list(self.topology.online)
        options = dict(self.options)
        if data.draw(st.booleans()):
            some = data.draw(st.lists(st.sampled_from(online), min_size=1, unique=True))
            options["availableResources"] = {"cpu": f"cpuset:{IdSet(some)}"}
        try:
            return TopologyAwareContainerPolicy(TopologyAwarePolicySpec.model_validate(options), self.topology)
        except PolicyConfigError:
            return None

    @rule(data=st.data())
    def allocate(self, data):
        for _ in range(data.draw(st.integers(1, 5))):
            self.number += 1
            new = data.draw(container(self.number))
            self.apply(new, self.policy.allocate(self.state, new))

    @precondition(lambda self: self.containers)
    @rule(data=st.data())
    def update(self, data):
        known = self.some(data)
        changed = replace(known, resources=data.draw(resources(known.qos)))
        self.apply(changed, self.policy.update(self.state, changed))

    @precondition(lambda self: self.containers)
    @rule(data=st.data())
    def release(self, data):
        gone = self.some(data).id
        before = self.state
        self.state = self.policy.release(self.state, gone).state
        del self.containers[gone]
        for name, placement in self.state.placements.items():
            assert placement.exclusive == before.placements[name].exclusive
            assert placement.memory == before.placements[name].memory

    @precondition(lambda self: self.containers)
    @rule(data=st.data())
    def restart(self, data):
        """Nothing moves, whatever the order of the list."""
        listed = data.draw(st.permutations(list(self.containers.values())))
        result = self.policy.synchronize(listed, self.policy.grants(self.state))
        assert not result.rejected
        assert result.state.placements == self.state.placements
        assert {timer.event for timer in result.timers} == {
            ColdStartEnded(name) for name, grant in self.state.ledger.grants.items() if grant.cold
        }
        self.state = result.state

    @precondition(lambda self: self.containers)
    @rule(data=st.data(), number=st.integers(10_000, 99_999))
    def start_again(self, data, number):
        """A container that is started again has its pool and exclusive CPUs or is refused, and no other moves."""
        old = self.some(data)
        grant, earlier = self.policy.grants(self.state)[old.id], self.state.placements[old.id]
        self.state = self.policy.release(self.state, self.containers.pop(old.id).id).state
        between = data.draw(container(number))
        self.apply(between, self.policy.allocate(self.state, between))
        again = replace(old, id=ContainerId(f"{old.id}-{number}"))
        result = self.policy.restore(self.state, again, grant)
        if result is None:
            return
        placement = result.state.placements[again.id]
        assert (placement.zone, placement.exclusive, placement.memory) == (
            earlier.zone,
            earlier.exclusive,
            earlier.memory,
        )
        for name, each in self.state.placements.items():
            other = result.state.placements[name]
            assert (other.zone, other.exclusive, other.memory) == (each.zone, each.exclusive, each.memory)
        self.apply(again, result)

    @precondition(lambda self: self.containers)
    @rule(seed=st.integers(0, 9))
    def start_without_grants(self, seed):
        """The order of the list decides nothing."""
        listed = list(self.containers.values())
        first = self.policy.synchronize(listed, {})
        random.Random(seed).shuffle(listed)
        assert self.policy.synchronize(listed, {}) == first
        self.adopt(first)

    @rule(data=st.data())
    def reconfigure(self, data):
        """Containers keep running: they are only rejected where the machine has nothing to share."""
        policy = self.configured(data)
        assume(policy)
        result = policy.synchronize(list(self.containers.values()), self.policy.grants(self.state))
        self.policy = policy
        self.adopt(result)

    @precondition(lambda self: self.containers)
    @rule(data=st.data())
    def end_a_cold_start(self, data):
        self.state = self.policy.handle(self.state, ColdStartEnded(self.some(data).id)).state

    @rule(data=st.data())
    def rebalance(self, data):
        usage = {name: data.draw(st.integers(0, 9000)) for name in self.containers if data.draw(st.booleans())}
        self.state = self.policy.handle(self.state, RebalanceRequested(usage)).state

    @rule()
    def change_the_power_profile(self):
        result = self.policy.handle(self.state, PowerProfileChanged("eco"))
        assert result.state is self.state

    def some(self, data):
        return self.containers[data.draw(st.sampled_from(sorted(self.containers)))]

    def apply(self, changed, result):
        if changed.id in result.rejected:
            assert result.state is self.state
            return
        assert not result.rejected
        self.containers[changed.id] = changed
        self.state = result.state

    def adopt(self, result):
        for name in result.rejected:
            del self.containers[name]
        self.state = result.state

    @invariant()
    def the_state_is_consistent(self):
        if not hasattr(self, "state"):
            return
        self.policy.check(self.state)
        placements = self.state.placements
        assert set(placements) == set(self.containers)
        for name, placement in placements.items():
            for other, another in placements.items():
                if other != name and another.cpus is not None:
                    assert placement.exclusive.isdisjoint(another.cpus)

    def teardown(self):
        if not hasattr(self, "state"):
            return
        for name in list(self.containers):
            self.state = self.policy.release(self.state, name).state
        self.policy.check(self.state)
        assert self.state == self.policy.synchronize([], {}).state


TopologyAwareMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestTopologyAwareMachine = TopologyAwareMachine.TestCase
