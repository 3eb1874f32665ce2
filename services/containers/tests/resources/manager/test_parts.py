"""What the parts of the resource manager do for each other."""

import asyncio

import pytest
from services.containers.tests.resources.manager.manager_bench import (
    GROUP,
    balloons,
    document,
    set_adjustments,
    set_config,
    template,
)
from structlog.testing import capture_logs

from joulie_actuator.cpu_class_protocol import ClassControl, CpuClassState, UnmetControl
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import ErrorReply
from joulie_containers.nri.connection import NriState
from joulie_containers.nri.handler import RuntimeInfo
from joulie_containers.resource_api.proto import resource_api_pb2 as pb
from joulie_core.containers.idset import Cpus
from joulie_core.containers.policy import RebalanceRequested
from joulie_testing.core.machines import GIB, MachineShape

CLASSES = [{"name": "fast", "publishExtendedResource": True, "minFreq": 2_000_000}, {"name": "slow"}]
FAST = [{**GROUP, "cpuClass": "fast", "irqMode": "isolate"}]


async def test_classes_and_interrupts_of_the_configuration_reach_their_controllers(managers, node):
    async with managers.started() as manager:
        await set_config(manager, balloons(cpuClasses=CLASSES, balloonTypes=FAST, controllableInterrupts=["eth*"]))
        await node.add(node.container("a", milli=2000))
        assert manager.classes._specs.keys() >= {"fast", "slow"}
        assert manager.classes._cpus["fast"] == Cpus.parse(managers.cpus()["a"])
        assert manager.interrupts._controllable == ("eth*",)
        assert manager.interrupts.wanted.isolated == Cpus.parse(managers.cpus()["a"])
        tasks = [asyncio.create_task(each.run()) for each in (manager.classes, manager.interrupts)]
        await managers.until(lambda: manager.classes.problem and manager.interrupts.problem)
        status = await manager.get_status(pb.Nothing())
        for problem in (status.cpu_classes_problem, status.interrupts_problem):
            assert problem == "unavailable: ACTUATOR_SOCKET is not set"
        assert status.extended_resources == {
            "cpuclass.joulie.io/fast-milli": manager.engine._configured.policy.class_capacity()["fast"]
        }
        assert status.extended_resources["cpuclass.joulie.io/fast-milli"] > 0
        await set_config(manager, balloons())
        assert ("fast" in manager.classes._specs, manager.interrupts._controllable) == (False, ("*",))
        assert (await manager.get_status(pb.Nothing())).extended_resources == {}
        for task in tasks:
            task.cancel()


class Actuator:
    """Takes every request and answers none."""

    def __init__(self):
        self.requests = []

    async def execute(self, request):
        self.requests.append(request)
        return ErrorReply(message="stopping")


async def test_the_actuator_gets_the_classes_and_the_interrupts(managers, node):
    actuator = Actuator()
    async with managers.started(actuator=actuator) as manager:
        await set_config(manager, balloons(cpuClasses=CLASSES, balloonTypes=FAST))
        await node.add(node.container("a", milli=2000))
        cpus = managers.cpus()["a"]
        tasks = [asyncio.create_task(each.run()) for each in (manager.classes, manager.interrupts)]
        await managers.until(lambda: len(actuator.requests) == len(tasks))
        for task in tasks:
            task.cancel()
    classes, interrupts = actuator.requests
    assert (classes.classes["fast"].cpus, classes.classes["fast"].min_khz) == (cpus, 2_000_000)
    assert (interrupts.isolated, interrupts.controllable) == (cpus, ("*",))


async def test_requests_are_measured(managers, node):
    async with managers.started() as manager:
        await node.add(node.container("a"))
        text = (await managers.registry.render()).decode()
        assert 'joulie_nri_request_duration_seconds_count{request="create"} 1.0' in text
        assert "joulie_nri_registered 1.0" in text
        manager.pipeline._observer.handled("create", 1.0, late=True)
        assert manager.counts.late == {"create": 1}


async def test_a_topology_aware_configuration_leaves_interrupts_alone(managers):
    async with managers.started("topology-aware") as manager:
        await set_config(
            manager, document("TopologyAwarePolicy", reservedResources={"cpu": 1}, cpuClasses=[{"name": "x"}])
        )
        assert "x" in manager.classes._specs
        assert manager.interrupts._controllable == ()


@pytest.mark.parametrize(
    ("policy", "manifest"),
    [
        ("template", template("0-7", control={"rdt": {"enable": True}})),
        ("balloons", balloons(control={"rdt": {"enable": True}})),
    ],
)
async def test_controls_of_the_configuration_are_set_in_new_containers(managers, node, policy, manifest):
    resctrl = managers.root / "sys/fs/resctrl"
    resctrl.mkdir(parents=True)
    (resctrl / "schemata").touch()
    async with managers.started(policy) as manager:
        await set_config(manager, manifest)
        gold = {"classes": {"rdt": "gold"}}
        assert await set_adjustments(manager, x=gold) == {}
        await node.add(node.container("a"))
        assert node.runtime.containers["a"].linux.resources.rdt_class.value == "gold"
        assert manager.engine.created_with("a").rdt == "gold"


SCHEDULED = {**GROUP, "schedulingClass": "batch"}


async def test_the_scheduling_class_of_a_balloon_is_set_in_new_containers(managers, node):
    async with managers.started() as manager:
        classes = [{"name": "batch", "policy": "batch", "nice": 5}]
        await set_config(manager, balloons(balloonTypes=[SCHEDULED], schedulingClasses=classes))
        await node.runtime.run_pod(node.pod())
        reply = await node.runtime.create_container(node.container("a", milli=1000))
        assert reply.adjust.linux.scheduler.nice == 5


class Recorder:
    def __init__(self):
        self.events = []

    async def record_events(self, events):
        self.events += events


def runtime(config="", *, timeout_s=2.0):
    return RuntimeInfo(
        name="r", version="v", nri_version="", request_timeout_s=timeout_s, registration_timeout_s=5.0, config=config
    )


def state(*, registered=True, failure="", timeout_s=2.0, oldest=None):
    return NriState(
        registered=registered,
        runtime=runtime(timeout_s=timeout_s) if timeout_s else None,
        registrations=1,
        failure=failure,
        last_reply=None,
        oldest_request=oldest,
    )


@pytest.mark.parametrize(
    ("connection", "why"),
    [
        (state(), None),
        (state(registered=False), "not registered with the container runtime"),
        (state(registered=False, failure="no such socket"), "no such socket"),
    ],
)
async def test_readiness_has_the_reason_why_the_plugin_is_not_registered(managers, monkeypatch, connection, why):
    manager = managers.make()
    monkeypatch.setattr(type(manager.connection), "state", connection)
    assert manager.not_registered() == why
    assert manager.runtime_state is connection


@pytest.mark.looptime
async def test_a_request_hangs_after_twice_the_timeout_of_the_runtime(managers, monkeypatch):
    manager = managers.make()
    now = asyncio.get_running_loop().time()

    def hung(**values):
        monkeypatch.setattr(type(manager.connection), "state", state(**values))
        return manager.hung()

    assert hung() is None
    assert hung(oldest=now - 3.9) is None
    assert hung(oldest=now - 4.1) == "a request is in progress for 4.1 s"
    assert hung(oldest=now - 100, timeout_s=None) is None


@pytest.mark.looptime
@pytest.mark.parametrize(("interval", "times"), [("60s", [60, 120, 180]), ("45s", [50, 100, 150, 200]), ("0s", [])])
async def test_the_policy_may_rebalance_in_the_interval_that_is_configured(managers, monkeypatch, interval, times):
    manager = managers.make(USAGE_INTERVAL="10s", REBALANCE_INTERVAL=interval)
    loop = asyncio.get_running_loop()
    start = loop.time()
    monkeypatch.setattr("time.monotonic", loop.time)
    read, events = [], []

    async def policy_event(event):
        events.append((round(loop.time() - start), event))

    async def to_thread(function, *args):
        return function(*args)

    def usage(cgroups, now):
        read.append(round(now - start))
        assert cgroups is manager.pipeline.cgroups
        return {"a": 700}

    monkeypatch.setattr(manager.pipeline, "policy_event", policy_event)
    monkeypatch.setattr(manager._usage, "read", usage)
    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    assert manager.usage_milli == {}
    task = asyncio.create_task(manager.poll_usage())
    await asyncio.sleep(205)
    task.cancel()
    assert read == [*range(10, 210, 10)]
    assert manager.usage_milli == {"a": 700}
    assert events == [(each, RebalanceRequested({"a": 700})) for each in times]


async def test_changed_hardware_reaches_placements_hints_and_files(managers, node):
    async with managers.started("template", EXPORT_HOST_DIR="/run/x") as manager:
        await node.add(node.container("a"))
        assert manager._reader._memory_capacity_bytes == 64 * GIB
        for hints in (manager._reader._hints, manager.configuration._host):
            assert hints.close_cpus("/sys/devices/system/node/node1") == Cpus.parse("4-7")
        smaller = MachineShape(packages=2, cores_per_node=2, memory_per_node_bytes=GIB).topology()
        await manager.use_topology(smaller)
        await managers.until(lambda: managers.cpus() == {"a": "0-3"})
        assert manager.files._topology is smaller
        assert manager._reader._memory_capacity_bytes == 2 * GIB
        for hints in (manager._reader._hints, manager.configuration._host):
            assert hints.close_cpus("/sys/devices/system/node/node1") == Cpus.parse("2-3")
        assert "online" in (await set_config(manager, template("7"))).error


async def test_files_are_below_the_state_directory_as_the_runtime_sees_it(managers, node):
    async with managers.started(EXPORT_HOST_DIR="/run/x"):
        await node.runtime.run_pod(node.pod())
        (mount,) = (await node.runtime.create_container(node.container("a"))).adjust.mounts
        assert mount.source == "/run/x/exported/a"
        assert (managers.root / "state/exported/a/resources.sh").exists()


async def test_files_follow_what_the_runtime_has_carried_out(managers, node):
    async with managers.started("template", EXPORT_HOST_DIR="/run/x") as manager:
        following = asyncio.create_task(manager.files.run())
        await node.add(node.container("a"))
        file = managers.root / "state/exported/a/resources.sh"
        await set_config(manager, template("2-5"))
        await managers.until(lambda: 'SHARED_CPUS="2-5"' in file.read_text())
        following.cancel()


async def test_the_drop_in_file_of_the_runtime_is_a_configuration_and_a_wrong_one_is_logged(managers):
    async with managers.started("template") as manager:
        await manager.pipeline.configure(runtime(""))
        assert manager.configuration.active.source == "default"
        await manager.pipeline.configure(runtime(template("1-2")))
        assert manager.configuration.active.source == "runtime"
        with capture_logs() as logs:
            await manager.pipeline.configure(runtime(template("99")))
        (line,) = [line for line in logs if line["event"] == "configuration of the runtime refused"]
        assert (line["log_level"], "cpuset:99" in line["problem"]) == ("warning", True)
        assert manager.configuration.active.source == "runtime"


async def test_a_class_that_is_not_in_force_is_an_event_of_the_pods_on_its_cpus(managers, node):
    recorder = Recorder()
    async with managers.started(recorder=recorder) as manager:
        await node.add(node.container("a"))
        cpus = managers.cpus()["a"]
        unmet = UnmetControl(control=ClassControl.MAX_KHZ, reason=Reason.NO_INTERFACE, cpus=cpus, message="no cpufreq")
        manager.classes.on_report({"fast": CpuClassState(cpus=cpus, ceiling_khz=None, floor_khz=None, unmet=(unmet,))})
        await managers.until(lambda: recorder.events)
    (event,) = recorder.events
    assert (event.pod, event.reason) == ("pod", "CpuClassNotInForce")
    assert event.message == "container a: CPU class fast is not in force: max_khz: no cpufreq"


async def test_a_timer_of_the_policy_ends_in_an_event_of_the_policy(managers):
    manager = managers.make()
    assert manager.reports.on_event == manager.pipeline.policy_event


async def test_updates_that_fail_are_logged_by_namespace_pod_and_container(managers, node):
    async with managers.started("template") as manager:
        await node.add(node.container("a"))
        node.runtime.refuse_updates = {"a"}
        with capture_logs() as logs:
            await set_config(manager, template("1-2"))
            await managers.until(lambda: manager.updater.failed)
            await managers.until(lambda: logs)
        assert "default/pod/a" in [line.get("container") for line in logs]
        assert manager._title("gone") == "gone"


async def test_a_new_process_starts_with_the_configuration_and_the_grants_of_the_last(managers, node):
    async with managers.started("template") as manager:
        await set_config(manager, template("1-2"))
        await node.add(node.container("a"))
    async with managers.started("template") as manager:
        assert (manager.configuration.active.source, managers.cpus()) == ("cache", {"a": "1-2"})


async def test_a_file_takes_precedence_over_the_cluster(managers):
    file = managers.root / "policy.yaml"
    file.write_text(template("1-2"))
    async with managers.started("template", CONFIG_FILE=str(file)) as manager:
        assert manager.configuration.active.source == "file"
        assert "taken from the file" in (await set_config(manager, template("0-3"))).error


async def test_the_plugin_has_the_name_and_index_that_are_configured(managers, node):
    manager = managers.make(PLUGIN_NAME="other", PLUGIN_INDEX="42")
    await manager.start()
    task = asyncio.create_task(manager.connection.run())
    identity = await node.runtime.registered()
    assert (identity.plugin_name, identity.plugin_idx) == ("other", "42")
    task.cancel()


async def test_settings_reach_the_parts_that_need_them(managers, node):
    manager = managers.make(CPU_CLASS_LEASE="30s", ON_DEADLINE="reject")
    assert (manager.classes._lease_s, manager.interrupts._lease_s) == (30, 30)
    assert manager.pipeline._on_deadline == "reject"
