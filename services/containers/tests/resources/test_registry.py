"""Container policies by name, as they are built without and with a configuration."""

import pytest

from joulie_containers.resources.configuration import PolicyHost
from joulie_containers.resources.registry import policy_definition
from joulie_containers.resources.settings import PolicyName
from joulie_core.containers.container import (
    ContainerId,
    ContainerInfo,
    ContainerResources,
    PodInfo,
    PodSandboxId,
    QosClass,
)
from joulie_core.containers.idset import EMPTY, Cpus
from joulie_testing.core.machines import MachineShape

#: CPUs 0-3 are one package, 4-7 the other.
TOPOLOGY = MachineShape(packages=2, cores_per_node=4).topology()


def build(name, spec=None, close_cpus=lambda _path: None):
    definition = policy_definition(name)
    manifest = {"metadata": {"name": "default"}, "spec": definition.default_spec if spec is None else spec}
    resource = definition.kind.model_validate(manifest)
    return definition.build(resource.spec, PolicyHost(topology=TOPOLOGY, close_cpus=close_cpus))


def cpus(policy, namespace="default", milli=2000):
    """The CPUs of a container of this namespace with this request."""
    pod = PodInfo(id=PodSandboxId("p"), uid="u", namespace=namespace, name="pod", qos=QosClass.BURSTABLE)
    resources = ContainerResources(cpu_request_milli=milli)
    container = ContainerInfo(id=ContainerId("c"), pod=pod, name="main", resources=resources)
    return policy.synchronize([container], {}).state.placements[container.id].cpus


@pytest.mark.parametrize("name", PolicyName)
def test_a_policy_has_the_name_and_the_kind_that_select_it(name):
    kinds = {"balloons": "BalloonsPolicy", "topology-aware": "TopologyAwarePolicy", "template": "TemplatePolicy"}
    assert (build(name).name, policy_definition(name).kind.info.kind) == (name, kinds[name])


@pytest.mark.parametrize("name", [PolicyName.BALLOONS, PolicyName.TOPOLOGY_AWARE])
def test_without_a_configuration_kube_system_has_one_cpu_and_no_other_container_has_it(name):
    policy = build(name)
    reserved = cpus(policy, "kube-system", 500)
    assert len(reserved) == 1
    assert reserved & cpus(policy) == EMPTY


def test_without_a_configuration_the_template_shares_all_cpus():
    assert cpus(build(PolicyName.TEMPLATE), "kube-system") == cpus(build(PolicyName.TEMPLATE)) == TOPOLOGY.online


def balloons_close_to(*paths):
    types = [{"name": "near", "namespaces": ["default"], "preferCloseToDevices": list(paths)}]
    return {"reservedResources": {"cpu": "cpuset:0"}, "balloonTypes": types}


@pytest.mark.parametrize(("close", "package"), [("4-7", "4-7"), ("1-3", "1-3")])
def test_balloons_are_close_to_the_devices_that_the_host_knows(close, package):
    known = {"/dev/known": Cpus.parse(close)}
    asked = []

    def close_cpus(path):
        asked.append(path)
        return known.get(path)

    policy = build(PolicyName.BALLOONS, balloons_close_to("/dev/unknown", "/dev/known"), close_cpus)
    assert cpus(policy) <= Cpus.parse(package)
    assert asked == ["/dev/known", "/dev/unknown"]


def test_devices_that_the_host_does_not_know_are_no_preference():
    policy = build(PolicyName.BALLOONS, balloons_close_to("/dev/unknown"))
    assert cpus(policy) == cpus(build(PolicyName.BALLOONS, balloons_close_to()))
