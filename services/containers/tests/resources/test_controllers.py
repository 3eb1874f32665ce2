from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_containers.nri.proto.nri_pb2 import ContainerAdjustment
from joulie_containers.resources.controllers import CreationControllers, values_of
from joulie_containers.resources.values import ContainerValues, CreationClasses, read_values, to_resources
from joulie_core.containers.annotations import DOMAIN
from joulie_core.containers.container import (
    ContainerId,
    ContainerInfo,
    ContainerResources,
    PodInfo,
    PodSandboxId,
    QosClass,
)
from joulie_core.containers.idset import Cpus
from joulie_core.containers.policy import Placement
from joulie_core.kinds.adjustment import AdjustedClasses
from joulie_core.kinds.container_policy import ControlOptions, SchedulingClassSpec

POD = PodInfo(id=PodSandboxId("p"), uid="u", namespace="ns", name="pod", qos=QosClass.BURSTABLE)
CONTAINER = ContainerInfo(id=ContainerId("c"), pod=POD, name="main")
PLACEMENT = Placement(zone="z", cpus=Cpus.parse("0-3"), memory=Cpus([1]), cpu_shares=512)


def test_a_placement_sets_cpuset_memory_nodes_and_shares():
    resources = to_resources(values_of(PLACEMENT, None))
    assert (resources.cpu.cpus, resources.cpu.mems, resources.cpu.shares.value) == ("0-3", "1", 512)
    assert not resources.cpu.HasField("quota")
    assert not resources.HasField("memory")


def test_what_a_placement_leaves_out_is_not_set():
    assert to_resources(values_of(Placement(zone="z"), None)).ByteSize() == 0


@pytest.mark.parametrize(("limit_milli", "quota_us"), [(1500, 150_000), (5, 1000), (None, -1)])
def test_adjusted_limits_become_quota_and_memory_limit(limit_milli, quota_us):
    adjusted = ContainerResources(cpu_limit_milli=limit_milli, memory_limit_bytes=1 << 30)
    values = values_of(PLACEMENT, adjusted)
    assert (values.cpu_quota_us, values.memory_limit_bytes) == (quota_us, 1 << 30)


def test_values_survive_the_messages_of_the_runtime():
    values = ContainerValues(
        cpus=Cpus.parse("0,2"), memory=Cpus([0]), cpu_shares=2, cpu_quota_us=20_000, memory_limit_bytes=5
    )
    assert read_values(to_resources(values)) == values


def test_a_quota_of_another_period_is_read_in_the_period_of_the_kernel():
    resources = to_resources(ContainerValues(cpu_quota_us=20_000))
    resources.cpu.period.value = 50_000
    assert read_values(resources).cpu_quota_us == 40_000
    resources.cpu.quota.value = -1
    assert read_values(resources).cpu_quota_us == -1


RDT, BLOCK_IO = f"rdtclass.{DOMAIN}/pod", f"blockioclass.{DOMAIN}/container.main"
ENABLED = {"rdt": {"enable": True}, "blockio": {"enable": True}}


def completed(root, control, **annotations):
    controllers = CreationControllers(root)
    controllers.define(ControlOptions.model_validate(control))
    container = replace(CONTAINER, pod=replace(POD, annotations=annotations))
    adjustment = ContainerAdjustment()
    with capture_logs() as logs:
        for _ in range(2):
            controllers.complete(adjustment, container, PLACEMENT)
    resources = adjustment.linux.resources
    return resources.rdt_class.value, resources.blockio_class.value, [line.get("kind") for line in logs]


@pytest.fixture
def host(tmp_path):
    (tmp_path / "sys/fs/resctrl").mkdir(parents=True)
    (tmp_path / "sys/fs/resctrl/schemata").touch()
    (tmp_path / "sys/fs/cgroup").mkdir()
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").write_text("cpuset cpu io memory\n")
    return tmp_path


def test_classes_that_the_host_cannot_serve_are_stated_once_and_not_set(tmp_path):
    assert completed(tmp_path, ENABLED, **{RDT: "gold", BLOCK_IO: "slow"}) == ("", "", ["rdt", "blockio"])
    assert CreationControllers(tmp_path).unavailable.keys() == {"rdt", "blockio"}


def test_annotated_classes_are_set_where_the_host_serves_them(host):
    assert completed(host, ENABLED, **{RDT: "gold", BLOCK_IO: "slow"}) == ("gold", "slow", [])


def test_classes_are_set_only_where_the_configuration_enables_them(host):
    assert completed(host, {"rdt": {"enable": True}}, **{RDT: "gold", BLOCK_IO: "slow"}) == ("gold", "", [])
    assert completed(host, {"blockio": {"enable": True}}, **{RDT: "gold", BLOCK_IO: "slow"}) == ("", "slow", [])


def test_a_container_has_no_class_unless_one_is_named_or_its_quality_of_service_is_one(host):
    assert completed(host, ENABLED) == ("", "", [])
    by_qos = {"rdt": {"enable": True, "usePodQoSAsDefaultClass": True}}
    assert completed(host, by_qos) == ("Burstable", "", [])
    assert completed(host, by_qos, **{RDT: "gold"}) == ("gold", "", [])


def test_an_annotation_without_a_class_is_ignored(host):
    assert completed(host, {"rdt": {"enable": True}}, **{RDT: " "}) == ("", "", [None, None])


def test_a_host_with_the_older_cgroups_serves_block_io_classes(tmp_path):
    (tmp_path / "sys/fs/cgroup/blkio").mkdir(parents=True)
    assert completed(tmp_path, ENABLED, **{BLOCK_IO: "slow"}) == ("", "slow", [])


def scheduled(**spec):
    controllers = CreationControllers(Path("/none"))
    controllers.define(ControlOptions(), [SchedulingClassSpec(name="s", **spec)])
    adjustment = ContainerAdjustment()
    controllers.complete(adjustment, CONTAINER, Placement(zone="z", scheduling_class="s"))
    return adjustment.linux


def test_a_scheduling_class_sets_policy_and_io_priority():
    linux = scheduled(policy="fifo", priority=7, flags=["reset-on-fork", "no-flag"], ioClass="rt", ioPriority=3)
    assert linux.scheduler.policy == nri.SCHED_FIFO
    assert (linux.scheduler.priority, list(linux.scheduler.flags)) == (7, [nri.SCHED_FLAG_RESET_ON_FORK])
    assert (getattr(linux.io_priority, "class"), linux.io_priority.priority) == (nri.IOPRIO_CLASS_RT, 3)


def test_times_of_a_scheduling_class_are_microseconds():
    scheduler = scheduled(policy="deadline", runtime=10_000, deadline=20_000, period=30_000, nice=-5).scheduler
    assert (scheduler.runtime, scheduler.deadline, scheduler.period) == (10_000_000, 20_000_000, 30_000_000)
    assert scheduler.nice == -5


def test_an_empty_scheduling_class_sets_nothing():
    linux = scheduled()
    assert not linux.HasField("scheduler")
    assert not linux.HasField("io_priority")


def class_problems(root, control, created, **wanted):
    controllers = CreationControllers(root)
    controllers.define(ControlOptions.model_validate(control))
    return list(controllers.class_problems(AdjustedClasses(**wanted), created))


def test_a_class_that_a_container_was_created_with_is_no_problem(host):
    created = CreationClasses(rdt="gold", blockio="slow")
    assert class_problems(host, ENABLED, created) == []
    assert class_problems(host, ENABLED, created, rdt="gold", blockio="slow") == []


def test_another_class_waits_for_the_next_creation(host):
    created = CreationClasses(rdt="gold", blockio="slow")
    assert class_problems(host, ENABLED, created, rdt="silver", blockio="fast") == [
        "classes.rdt: silver is set when the container is created again; runtimes do not change it before",
        "classes.blockio: fast is set when the container is created again; runtimes do not change it before",
    ]
    (blockio,) = class_problems(host, ENABLED, created, rdt="gold", blockio="fast")
    assert blockio.startswith("classes.blockio: ")


def test_a_class_that_the_configuration_does_not_enable_is_named(host):
    assert class_problems(host, {"blockio": {"enable": True}}, CreationClasses(), rdt="gold") == [
        "classes.rdt: the configuration in force does not enable control.rdt"
    ]


def test_a_class_that_the_host_cannot_serve_is_named(tmp_path):
    assert class_problems(tmp_path, ENABLED, CreationClasses(), rdt="gold", blockio="slow") == [
        "classes.rdt: the host has not mounted resctrl at /sys/fs/resctrl",
        "classes.blockio: the host has no cgroup controller for block I/O",
    ]


def test_without_a_configuration_no_class_is_set(host):
    adjustment = ContainerAdjustment()
    container = replace(CONTAINER, pod=replace(POD, annotations={RDT: "gold"}))
    CreationControllers(host).complete(adjustment, container, PLACEMENT)
    assert adjustment == ContainerAdjustment()


@pytest.mark.parametrize(("name", "number"), [("none", "NONE"), ("rt", "RT"), ("be", "BE"), ("idle", "IDLE")])
def test_each_io_class_is_that_of_the_runtime(name, number):
    priority = scheduled(ioClass=name).io_priority
    assert getattr(priority, "class") == getattr(nri, f"IOPRIO_CLASS_{number}")
    assert priority.priority == 0


def test_what_a_scheduling_policy_does_not_set_is_zero():
    scheduler = scheduled(policy="rr").scheduler
    assert (scheduler.nice, scheduler.priority) == (0, 0)
    assert (scheduler.runtime, scheduler.deadline, scheduler.period) == (0, 0, 0)


def test_flags_may_be_written_as_the_kernel_names_them_and_unknown_ones_are_logged():
    with capture_logs() as logs:
        scheduler = scheduled(policy="fifo", flags=["SCHED_FLAG_RECLAIM", "reset-on-fork", "no-flag"]).scheduler
    assert list(scheduler.flags) == [nri.SCHED_FLAG_RECLAIM, nri.SCHED_FLAG_RESET_ON_FORK]
    (line,) = logs
    assert "no-flag" in str(line)
    assert "reset-on-fork" not in str(line)


def test_an_adjusted_container_without_limits_has_none():
    values = values_of(PLACEMENT, ContainerResources(cpu_limit_milli=333))
    assert (values.cpu_quota_us, values.memory_limit_bytes) == (33_300, -1)
