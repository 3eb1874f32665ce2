"""Annotations that users may write: none ends the placement of the container that has it, or of any other."""

import json

import pytest

from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_containers.resources.configuration import PolicyHost
from joulie_containers.resources.hints import HintSource
from joulie_containers.resources.registry import policy_definition
from joulie_containers.resources.settings import PolicyName
from joulie_containers.resources.translate import RESOURCES_ANNOTATION, ContainerReader, pod_info
from joulie_testing.agent.host_files import host_in_memory
from joulie_testing.core.machines import MachineShape

TOPOLOGY = MachineShape(packages=2, cores_per_node=4).topology()
KEYS = [
    RESOURCES_ANNOTATION,
    "resource-policy.nri.io/affinity",
    "resource-policy.nri.io/anti-affinity",
    *(
        f"{key}.resource-policy.nri.io"
        for key in (
            "balloon.balloons",
            "prefer-shared-cpus",
            "require-isolated-cpus",
            "prefer-cpu-priority",
            "unlimited-burstable",
            "cold-start",
            "memory-type",
            "hide-hyperthreads",
            "cpu.preserve/pod",
            "topologyhints",
            "allow.topologyhints",
            "pick-resources-by-hints",
            "cpu-class",
            "scheduling-class/container.main",
            "rdtclass",
            "toptierlimit",
            "irq-affinity",
        )
    ),
]
NESTED_ALIASES = "a: &a [x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join(['*' + before] * 7)}]\n" for before, name in zip("abcdef", "bcdefg", strict=True)
)
VALUES = {
    "nested": "[" * 100_000,
    "nested objects": '{"a":' * 20_000,
    "nested lists of YAML": "[ " * 5000 + "]" * 5000,
    "aliases": NESTED_ALIASES,
    "digits": "9" * 100_000,
    "infinite": "1e999",
    "not a number": "NaN",
    "control characters": "\x00\x1b[2J\u009b",
    "tag": "!!python/object:os.system x",
    "date": "2001-99-99",
    "more CPUs than there are": json.dumps({"containers": {"main": {"requests": {"cpu": "9Ei", "memory": "9Ei"}}}}),
    "null": json.dumps({"containers": {"main": None}}),
}


def policy(name):
    definition = policy_definition(name)
    spec = {"reservedResources": {"cpu": 1}} if name is not PolicyName.TEMPLATE else {}
    resource = definition.kind.model_validate({"metadata": {"name": "default"}, "spec": spec})
    return definition.build(resource.spec, PolicyHost(topology=TOPOLOGY, close_cpus=lambda _path: None))


def container(name, annotations=()):
    pod = nri.PodSandbox(id=f"p-{name}", name=name, uid=f"u-{name}", namespace="ns", annotations=dict(annotations))
    message = nri.Container(id=name, pod_sandbox_id=pod.id, name="main", state=nri.CONTAINER_RUNNING)
    message.linux.resources.cpu.shares.value = 1024
    reader = ContainerReader(HintSource(host_in_memory(TOPOLOGY)[0], TOPOLOGY), 64 << 30)
    return reader.container(pod_info(pod), message, None)


@pytest.mark.parametrize("value", VALUES.values(), ids=list(VALUES))
@pytest.mark.parametrize("name", PolicyName)
def test_a_container_with_an_annotation_of_any_content_is_placed_or_refused_and_the_others_stay(name, value):
    chosen = policy(name)
    other = container("other")
    before = chosen.synchronize([other], {})
    assert other.id in before.state.placements
    for key in KEYS:
        hostile = container("hostile", {key: value})
        for after in (chosen.allocate(before.state, hostile), chosen.synchronize([other, hostile], {})):
            assert other.id in after.state.placements, key
            assert (hostile.id in after.state.placements) != (hostile.id in after.rejected), key
