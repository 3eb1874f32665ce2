"""Pods and containers of the runtime's messages, as container policies see them."""

import json

import pytest
from structlog.testing import capture_logs

from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_containers.resources.hints import HintSource
from joulie_containers.resources.translate import (
    PRESENT,
    RESOURCES_ANNOTATION,
    ContainerReader,
    KnownResources,
    memory_bytes,
    pod_info,
)
from joulie_containers.resources.values import MOST_CPU_MILLI, UNSET, ContainerValues
from joulie_core.containers.container import ContainerResources, QosClass
from joulie_testing.agent.host_files import host_in_memory
from joulie_testing.core.machines import MachineShape

TOPOLOGY = MachineShape(packages=2, cores_per_node=4).topology()
MEMORY_BYTES = 64 << 30


@pytest.fixture
def reader():
    return ContainerReader(HintSource(host_in_memory(TOPOLOGY)[0], TOPOLOGY), MEMORY_BYTES)


def make_pod(parent="/kubepods/burstable/pod1", **annotations):
    pod = nri.PodSandbox(id="p", name="web", uid="u", namespace="ns", labels={"app": "a"}, annotations=annotations)
    pod.linux.cgroup_parent = parent
    return pod


def make_container(shares=1024, quota=0, memory=0):
    container = nri.Container(id="c", pod_sandbox_id="p", name="main", created_at=7, labels={"l": "x"})
    container.linux.resources.cpu.shares.value = shares
    if quota:
        container.linux.resources.cpu.quota.value = quota
        container.linux.resources.cpu.period.value = 100_000
    if memory:
        container.linux.resources.memory.limit.value = memory
    return container


def annotated(**amounts):
    return json.dumps({"containers": {"main": amounts}})


def read(reader, container, known=None, update=None, **annotations):
    return reader.container(pod_info(make_pod(**annotations)), container, known, update).resources


def test_a_pod_is_read_with_all_that_policies_select_by():
    pod = pod_info(make_pod(key="value"))
    assert (pod.id, pod.uid, pod.namespace, pod.name) == ("p", "u", "ns", "web")
    assert (pod.labels, pod.annotations) == ({"app": "a"}, {"key": "value"})


@pytest.mark.parametrize(
    ("parent", "qos"),
    [
        ("/kubepods/burstable/pod1", QosClass.BURSTABLE),
        ("/kubepods/besteffort/pod1", QosClass.BEST_EFFORT),
        ("/kubepods/pod1", QosClass.GUARANTEED),
    ],
)
def test_the_quality_of_service_is_that_of_the_cgroup(parent, qos):
    assert pod_info(make_pod(parent)).qos == qos


def test_a_container_is_read_with_its_names_and_what_its_cgroup_shows(reader):
    container = reader.container(pod_info(make_pod()), make_container(512, 150_000, 1 << 30), None)
    assert (container.id, container.name, container.created_ns, container.labels) == ("c", "main", 7, {"l": "x"})
    assert container.pod.name == "web"
    resources = container.resources
    assert (resources.cpu_request_milli, resources.cpu_limit_milli) == (500, 1500)
    assert resources.memory_limit_bytes == 1 << 30


def test_an_update_changes_what_it_sets_and_nothing_else(reader):
    update = nri.LinuxResources()
    update.cpu.shares.value = 2048
    found = read(reader, make_container(512, 150_000), update=update)
    assert (found.cpu_request_milli, found.cpu_limit_milli) == (2000, 1500)


def test_the_message_of_the_runtime_is_not_changed_by_an_update(reader):
    container, update = make_container(512), nri.LinuxResources()
    update.cpu.shares.value = 2048
    read(reader, container, update=update)
    assert container.linux.resources.cpu.shares.value == 512


def test_an_annotation_with_the_resources_of_the_container_precedes_the_estimate(reader):
    annotation = {RESOURCES_ANNOTATION: annotated(requests={"cpu": "1250m"}, limits={"memory": "1Gi"})}
    found = read(reader, make_container(2), **annotation)
    assert (found.cpu_request_milli, found.memory_limit_bytes) == (1250, 1 << 30)


def test_an_annotation_without_the_container_changes_nothing(reader):
    assert (
        read(reader, make_container(512), **{RESOURCES_ANNOTATION: '{"containers": {"other": {}}}'}).cpu_request_milli
        == 500
    )


@pytest.mark.parametrize(
    "annotation",
    [
        "{",
        "[" * 100_000,
        annotated(requests={"cpu": "x"}),
        annotated(requests={"cpu": "9Ei"}),
        annotated(limits={"cpu": "9Ei"}),
    ],
    ids=lambda text: text[-20:],
)
def test_an_annotation_that_cannot_be_used_is_logged_and_the_estimate_counts(reader, annotation):
    with capture_logs() as logs:
        found = read(reader, make_container(512), **{RESOURCES_ANNOTATION: annotation})
    assert found.cpu_request_milli == 500
    (line,) = logs
    assert (line["event"], line["container"]) == ("annotation ignored", "ns/web/main")
    assert line["key"] == RESOURCES_ANNOTATION


def test_as_many_cpus_as_a_container_may_have_are_taken_from_an_annotation(reader):
    annotation = {RESOURCES_ANNOTATION: annotated(requests={"cpu": f"{MOST_CPU_MILLI}m"})}
    assert read(reader, make_container(512), **annotation).cpu_request_milli == MOST_CPU_MILLI


BEFORE = ContainerResources(
    cpu_request_milli=111, cpu_limit_milli=222, memory_request_bytes=333, memory_limit_bytes=444
)
SET = ContainerValues(cpu_shares=1024, cpu_quota_us=200_000, memory_limit_bytes=1 << 30)


def test_values_that_were_set_here_are_not_taken_for_what_the_pod_requests(reader):
    found = read(reader, make_container(1024, 200_000, 1 << 30), KnownResources(BEFORE, SET))
    assert found == BEFORE


def test_values_that_another_program_has_set_since_are_the_pods(reader):
    found = read(reader, make_container(2048, 300_000, 2 << 30), KnownResources(BEFORE, SET))
    assert (found.cpu_request_milli, found.cpu_limit_milli, found.memory_limit_bytes) == (2000, 3000, 2 << 30)


def test_where_nothing_was_set_here_what_is_shown_is_the_pods(reader):
    found = read(reader, make_container(1024, 200_000, 1 << 30), KnownResources(BEFORE, UNSET))
    assert (found.cpu_request_milli, found.cpu_limit_milli, found.memory_limit_bytes) == (1000, 2000, 1 << 30)


def test_an_update_to_the_values_that_were_set_here_is_the_pods(reader):
    found = read(
        reader,
        make_container(2, 50_000, 1),
        KnownResources(BEFORE, SET),
        make_container(1024, 200_000, 1 << 30).linux.resources,
    )
    assert (found.cpu_request_milli, found.cpu_limit_milli, found.memory_limit_bytes) == (1000, 2000, 1 << 30)


def test_another_host_is_used_from_then_on(reader):
    best_effort_of = pod_info(make_pod("/kubepods/burstable/pod1"))
    container = make_container(512)
    container.linux.oom_score_adj.value = 500
    before = reader.container(best_effort_of, container, None).resources.memory_request_bytes
    reader.use_host(HintSource(host_in_memory(TOPOLOGY)[0], TOPOLOGY), 2 * MEMORY_BYTES)
    after = reader.container(best_effort_of, container, None).resources.memory_request_bytes
    assert after == pytest.approx(2 * before, rel=0.01)
    assert before


def test_the_memory_of_a_node_is_that_of_all_its_memory_nodes():
    assert memory_bytes(TOPOLOGY) == sum(each.capacity_bytes for each in TOPOLOGY.nodes.values()) > 0


def test_containers_are_present_from_their_creation_until_they_stop():
    assert {nri.CONTAINER_CREATED, nri.CONTAINER_RUNNING, nri.CONTAINER_PAUSED} == PRESENT
