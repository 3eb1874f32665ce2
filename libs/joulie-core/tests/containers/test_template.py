from pathlib import Path
from types import ModuleType

import pytest

from joulie_core.containers import template
from joulie_core.containers.container import ContainerId, ContainerInfo, PodInfo, PodSandboxId, QosClass
from joulie_core.containers.idset import IdSet
from joulie_core.containers.policy import ContainerPolicy, PolicyConfigError, PowerProfileChanged
from joulie_core.containers.topology import HardwareTopology, LogicalCpu, MemoryNode
from joulie_core.kinds.template_policy import TemplatePolicySpec

CPUS = IdSet.parse("0-7")
MACHINE = HardwareTopology(
    cpus={number: LogicalCpu(id=number, package=0, core=number, l2=number, l3=0) for number in CPUS},
    nodes={0: MemoryNode(id=0, capacity_bytes=1, cpus=CPUS, distances={0: 10})},
)
RESERVED = {"availableResources": {"cpu": "cpuset:0-5"}, "reservedResources": {"cpu": "cpuset:0-1"}}


def container(name, namespace="default"):
    pod = PodInfo(
        id=PodSandboxId(f"sandbox-{name}"), uid=f"uid-{name}", namespace=namespace, name=name, qos=QosClass.BURSTABLE
    )
    return ContainerInfo(id=ContainerId(name), pod=pod, name="main")


def policy(options):
    return template.TemplateContainerPolicy(TemplatePolicySpec.model_validate(options), MACHINE)


def cpus(state):
    return {name: str(placement.cpus) for name, placement in state.placements.items()}


def test_containers_of_reserved_namespaces_run_on_the_reserved_cpus_and_others_on_the_rest():
    found = policy(RESERVED | {"reservedPoolNamespaces": ["monitoring-*"]})
    containers = [container("dns", "kube-system"), container("exporter", "monitoring-a"), container("web")]
    state = found.synchronize(containers, {}).state
    found.check(state)
    assert cpus(state) == {"dns": "0-1", "exporter": "0-1", "web": "2-5"}
    assert [(zone.name, zone.containers) for zone in found.zones(state)] == [
        ("reserved", ("dns", "exporter")),
        ("shared", ("web",)),
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"dns": "0-7", "web": "0-7"}),
        ({"reservedResources": {"cpu": "1500m"}}, {"dns": "0-1", "web": "2-7"}),
        ({"reservedResources": {"cpu": 8}}, {"dns": "0-7", "web": "0-7"}),
    ],
    ids=["nothing reserved", "a quantity", "all"],
)
def test_no_zone_is_empty(options, expected):
    state = policy(options).synchronize([container("dns", "kube-system"), container("web")], {}).state
    assert cpus(state) == expected


def test_a_configuration_that_does_not_fit_the_node_is_refused():
    with pytest.raises(PolicyConfigError, match=r"reservedResources\.cpu: 'cpuset:9'"):
        policy({"reservedResources": {"cpu": "cpuset:9"}})


def copied() -> ModuleType:
    """Return the copy that the first line of the module recommends."""
    source = Path(template.__file__).read_text()
    module = ModuleType("joulie_core.containers.fair")
    code = compile(
        source.replace("TemplateContainer", "FairContainer").replace('"template"', '"fair"'), "fair.py", "exec"
    )
    exec(code, module.__dict__)
    return module


def test_a_copy_with_another_name_is_a_working_policy():
    found: ContainerPolicy = copied().FairContainerPolicy(TemplatePolicySpec.model_validate(RESERVED), MACHINE)
    assert (found.name, template.TemplateContainerPolicy.name) == ("fair", "template")
    web, dns = container("web"), container("dns", "kube-system")
    empty = found.synchronize([], {}).state
    state = found.allocate(found.allocate(empty, web).state, dns).state
    assert cpus(state) == {"web": "2-5", "dns": "0-1"}
    assert found.update(state, web).state == state
    assert found.handle(state, PowerProfileChanged("eco")).state == state
    restarted = found.synchronize([dns, web], found.grants(state)).state
    found.check(restarted)
    assert restarted == state
    left = found.release(found.release(state, web.id).state, ContainerId("unknown")).state
    assert cpus(left) == {"dns": "0-1"}
    assert found.release(left, dns.id).state == empty


def test_check_finds_a_container_outside_its_zone():
    found = policy(RESERVED)
    state = found.synchronize([container("web")], {}).state
    with pytest.raises(AssertionError, match="web is not on the CPUs of its zone"):
        policy({}).check(state)
