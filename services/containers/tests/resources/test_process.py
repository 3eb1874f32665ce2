"""The whole process on a fake runtime and the files of an invented machine."""

import asyncio
import json
import threading
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientSession
from prometheus_client.parser import text_string_to_metric_families

from joulie_actuator.protocol import Subsystem
from joulie_actuator.server import Admission, Server
from joulie_actuator.settings import ActuatorSettings
from joulie_actuator.subsystems import HostSubsystems
from joulie_api.settings import SettingsError, read_settings
from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_containers.resource_api.cluster import serve_cluster
from joulie_containers.resource_api.config import ConfigClient
from joulie_containers.resource_api.proto import resource_api_pb2 as pb
from joulie_containers.resource_api.transport import ResourceApiError
from joulie_containers.resources import core_limit_enforcement, core_limits, process
from joulie_containers.resources.settings import ResourcesSettings
from joulie_containers.resources.sole import NotAloneError
from joulie_core.containers.annotations import DOMAIN
from joulie_core.containers.idset import Cpus
from joulie_core.containers.topology import MemoryKind
from joulie_core.labels import MAX_SLOWDOWN, WORKLOAD_CLASS
from joulie_testing.agent.host_files import put_host
from joulie_testing.core.machines import GIB, AttachedMemory, MachineShape


def manifest(available, **spec):
    return json.dumps(
        {
            "apiVersion": "config.nri/v1alpha1",
            "kind": "TemplatePolicy",
            "spec": {"availableResources": {"cpu": f"cpuset:{available}"}, **spec},
        }
    )


class Process:
    def __init__(self, app, manager, session):
        self.app, self.manager, self.session = app, manager, session

    async def get(self, path):
        async with self.session.get(f"http://127.0.0.1:{self.app.metrics_port}{path}") as reply:
            return reply.status, await reply.text()

    async def series(self):
        """Every sample by its name and the values of its labels, in the order of their names."""
        _, text = await self.get("/metrics")
        return {
            (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


class Host:
    """A node with a fake runtime; processes come and go."""

    def __init__(self, node, root, shape=MachineShape(packages=2, cores_per_node=4)):  # noqa: B008 - it is frozen
        self.node, self.root = node, root
        put_host(root, shape.topology())

    @asynccontextmanager
    async def process(self, *, registered=True, **settings):
        env = {
            "POLICY": "template",
            "NODE_NAME": "n1",
            "HOST_ROOT": str(self.root),
            "STATE_DIR": str(self.root / "state"),
            "NRI_SOCKET": str(self.node.directory / "nri.sock"),
            "METRICS_ADDR": "127.0.0.1:0",
            "CONFIG_POLL_INTERVAL": "5ms",
            **settings,
        }
        started = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(
            process.run(
                read_settings(ResourcesSettings, env), on_start=lambda app, manager: started.set_result((app, manager))
            )
        )
        await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        app, manager = started.result()
        if registered:
            await self.node.runtime.registered()
        async with ClientSession() as session:
            try:
                yield Process(app, manager, session)
            finally:
                app.stop()
                await task

    def cpus(self):
        return {name: each.linux.resources.cpu.cpus for name, each in self.node.runtime.containers.items()}

    async def until(self, condition):
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110 - conditions are on plain values
                await asyncio.sleep(0.005)


@pytest.fixture
def host(node, tmp_path):
    root = tmp_path / "host"
    root.mkdir()
    return Host(node, root)


async def test_containers_are_placed_by_the_built_in_defaults(host):
    async with host.process() as running:
        await host.node.add(host.node.container("a"))
        assert host.cpus() == {"a": "0-7"}
        assert (await running.get("/readyz"))[0] == 200


async def test_a_second_process_does_not_start(host):
    async with host.process():
        with pytest.raises(NotAloneError, match="STATE_DIR"):
            async with host.process(registered=False):
                pass
        with pytest.raises(NotAloneError, match="NRI_SOCKET"):
            async with host.process(registered=False, STATE_DIR=str(host.root / "other")):
                pass


async def test_readiness_waits_for_the_runtime(host):
    async with host.process(registered=False) as running:
        status, text = await running.get("/readyz")
        assert status == 503
        assert "[-]runtime failed" in text
        assert (await running.get("/healthz"))[0] == 200
        await host.node.runtime.registered()
        assert (await running.get("/readyz"))[0] == 200


async def test_a_changed_file_moves_running_containers_and_a_bad_one_shows_in_readiness(host):
    file = host.root / "policy.yaml"
    file.write_text(manifest("0-3"))
    async with host.process(CONFIG_FILE=str(file)) as running:
        await host.node.add(host.node.container("a"))
        assert host.cpus() == {"a": "0-3"}
        file.write_text(manifest("2-5"))
        await host.until(lambda: host.cpus() == {"a": "2-5"})
        file.write_text(manifest("99"))
        await host.until(lambda: running.manager.configuration.problem)
        status, text = await running.get("/readyz")
        assert status == 503
        assert "[-]configuration failed: " in text
        assert "availableResources.cpu: 'cpuset:99'" in text
        assert host.cpus() == {"a": "2-5"}


async def test_a_first_file_with_an_error_leaves_the_plugin_registered(host):
    file = host.root / "policy.yaml"
    file.write_text("kind: TemplatePolicy")
    async with host.process(CONFIG_FILE=str(file)) as running:
        await host.node.add(host.node.container("a"))
        assert host.cpus() == {"a": "0-7"}
        assert (await running.get("/readyz"))[0] == 503


async def test_the_last_configuration_in_force_survives_a_restart(host):
    api = {"API_SOCKET": str(host.root / "api.sock")}
    async with host.process(**api):
        client = ConfigClient(host.root / "api.sock")
        assert (await client.set_config("n1", manifest("1-2"))).error == ""
        await client.close()
        await host.node.add(host.node.container("a"))
    host.node.runtime.updates.clear()
    async with host.process(**api) as running:
        assert (host.cpus(), host.node.runtime.updates) == ({"a": "1-2"}, [])
        assert running.manager.configuration.active.source == "cache"


async def test_the_node_agent_configures_and_reads_the_status(host):
    async with host.process(API_SOCKET=str(host.root / "api.sock")):
        client = ConfigClient(host.root / "api.sock")
        await host.node.add(host.node.container("a", milli=500))
        reply = await client.set_config("n1", manifest("0-3", unknown=1))
        assert (reply.error, list(reply.ignored)) == ("", ["spec.unknown"])
        await host.until(lambda: host.cpus() == {"a": "0-3"})
        assert "cpuset:99" in (await client.set_config("n1", manifest("99"))).error
        status = await client.status()
        assert (status.node_name, status.registered, status.problem) == ("n1", True, "")
        assert (status.configuration.policy, status.configuration.source) == ("template", "cluster")
        assert "cpuset:99" in status.configuration.error
        assert json.loads(status.configuration.manifest)["spec"]["availableResources"] == {"cpu": "cpuset:0-3"}
        (container,) = status.zones[-1].containers
        assert (container.pod, container.name, container.cpus, container.request_milli) == ("pod", "a", "0-3", 500)
        with pytest.raises(ResourceApiError, match="is not this node"):
            await client.set_config("other", manifest("0-3"))
        with pytest.raises(ResourceApiError, match="not one of performance, eco"):
            await client.set_power_profile("fast")
        await client.set_power_profile("eco")
        await client.close()


async def test_adjustments_reach_containers_and_their_errors_the_node_agent(host):
    async with host.process(API_SOCKET=str(host.root / "api.sock")):
        client = ConfigClient(host.root / "api.sock")
        await host.node.add(host.node.container("a", milli=500))
        good = json.dumps({"spec": {"resources": {"limits": {"cpu": 2}}}})
        assert await client.set_adjustments("n1", {"good": good}) == {}
        await host.until(lambda: host.node.runtime.containers["a"].linux.resources.cpu.quota.value == 200_000)
        errors = await client.set_adjustments("n1", {"good": good, "twin": good, "bad": "{}"})
        assert errors.keys() == {"good", "twin", "bad"}
        assert errors["good"] == {"default/pod/a": "conflicts with twin: the container is not changed"}
        assert errors["bad"].keys() == {""}
        await client.close()


GOLD = json.dumps({"spec": {"classes": {"rdt": "gold"}}})


async def test_the_class_of_an_adjustment_is_set_at_the_next_creation_and_missing_from_running_containers(host):
    resctrl = host.root / "sys/fs/resctrl"
    resctrl.mkdir(parents=True)
    (resctrl / "schemata").touch()
    api = {"API_SOCKET": str(host.root / "api.sock")}
    client = ConfigClient(host.root / "api.sock")
    async with host.process(**api):
        await client.set_config("n1", manifest("0-7", control={"rdt": {"enable": True}}))
        await host.node.add(host.node.container("a"))
        (error,) = (await client.set_adjustments("n1", {"x": GOLD}))["x"].items()
        assert error == (
            "default/pod/a",
            "classes.rdt: gold is set when the container is created again; runtimes do not change it before",
        )
        await host.node.add(host.node.container("b"))
        classes = {name: each.linux.resources.rdt_class.value for name, each in host.node.runtime.containers.items()}
        assert classes == {"a": "", "b": "gold"}
        assert (await client.set_adjustments("n1", {"x": GOLD}))["x"].keys() == {"default/pod/a"}
    async with host.process(**api):
        assert (await client.set_adjustments("n1", {"x": GOLD}))["x"].keys() == {"default/pod/a"}
        silver = GOLD.replace("gold", "silver")
        errors = await client.set_adjustments("n1", {"x": silver})
        assert errors["x"].keys() == {"default/pod/a", "default/pod/b"}
    await client.close()


async def test_a_class_of_an_adjustment_that_cannot_be_set_is_reported_with_the_reason(host):
    client = ConfigClient(host.root / "api.sock")
    async with host.process(API_SOCKET=str(host.root / "api.sock")):
        await host.node.add(host.node.container("a"))
        (error,) = (await client.set_adjustments("n1", {"x": GOLD}))["x"].values()
        assert error == "classes.rdt: the configuration in force does not enable control.rdt"
        await client.set_config("n1", manifest("0-7", control={"rdt": {"enable": True}}))
        (error,) = (await client.set_adjustments("n1", {"x": GOLD}))["x"].values()
        assert error == "classes.rdt: the host has not mounted resctrl at /sys/fs/resctrl"
    await client.close()


async def test_cpus_that_are_taken_offline_are_left(host):
    process._TOPOLOGY_INTERVAL_S, before = 0.005, process._TOPOLOGY_INTERVAL_S
    try:
        async with host.process():
            await host.node.add(host.node.container("a"))
            online = host.root / "sys/devices/system/cpu/online"
            online.chmod(0o644)
            online.write_text("0-5\n")
            await host.until(lambda: host.cpus() == {"a": "0-5"})
    finally:
        process._TOPOLOGY_INTERVAL_S = before


async def test_usage_and_placements_are_exported(host):
    cgroup = host.root / "sys/fs/cgroup/kubepods/a"
    cgroup.mkdir(parents=True)
    (cgroup / "cpu.stat").write_text("usage_usec 1000000\n")
    async with host.process(USAGE_INTERVAL="5ms") as running:
        container = host.node.container("a", milli=500)
        container.linux.cgroups_path = "/kubepods/a"
        await host.node.add(container)
        await host.until(lambda: running.manager.usage_milli == {"a": 0})
        series = await running.series()
        assert series["joulie_nri_registered",] == 1
        assert series["joulie_container_placement_info", "a", "0-7", "", "default", "pod", "shared"] == 1
        assert series["joulie_container_cpus", "a", "default", "pod"] == 8
        assert series["joulie_container_cpu_usage_milli", "a", "default", "pod"] == 0
        assert series["joulie_zone_containers", "pool", "shared"] == 1
        assert series["joulie_zone_cpu_usage_milli", "pool", "shared"] == 0
        assert series["joulie_nri_request_duration_seconds_count", "create"] == 1
        assert series["joulie_container_policy_configuration_valid",] == 1


async def test_placements_are_described_for_people(host):
    async with host.process() as running:
        await host.node.add(host.node.container("a", milli=500))
        status, text = await running.get("/debug/placements")
    described = json.loads(text)
    assert status == 200
    assert described["runtime"]["name"] == "fake"
    assert described["configuration"]["source"] == "default"
    (container,) = described["containers"]
    assert (container["wanted"]["cpus"], container["inForce"]["cpus"], container["pending"]) == ("0-7", "0-7", False)


class NodeAgent:
    def __init__(self):
        self.events = []

    def __getattr__(self, name):
        async def method(_request):
            return pb.Nothing()

        return method

    async def record_events(self, request):
        self.events += request.events
        return pb.Nothing()


async def test_a_rejected_container_becomes_an_event_of_its_pod(host):
    agent = NodeAgent()
    socket = host.root / "agent.sock"
    async with serve_cluster(socket, agent), host.process(NODE_AGENT_SOCKET=str(socket)) as running:
        await host.node.add(host.node.container("a"))
        running.manager.reports.rejected(running.manager.engine.containers["a"], "no CPUs left")
        await host.until(lambda: agent.events)
    (event,) = agent.events
    assert (event.namespace, event.pod, event.reason) == ("default", "pod", "ContainerRejected")
    assert event.message == "container a: no CPUs left"


async def test_a_request_that_hangs_fails_liveness(host, monkeypatch):
    async with host.process() as running:
        state = running.manager.connection.state
        loop = asyncio.get_running_loop()
        hung = type(state)(
            registered=True,
            runtime=state.runtime,
            registrations=1,
            failure="",
            last_reply=None,
            oldest_request=loop.time() - 5,
        )
        monkeypatch.setattr(type(running.manager.connection), "state", hung)
        status, text = await running.get("/healthz")
    assert status == 503
    assert "in progress for 5" in text


async def test_a_damaged_cache_is_set_aside_and_containers_are_placed(host):
    (host.root / "state").mkdir()
    (host.root / "state/cache.json").write_text("{")
    host.node.existing(host.node.container("a", state=nri.CONTAINER_RUNNING))
    async with host.process():
        assert host.cpus() == {"a": "0-7"}
    assert (host.root / "state/cache.json.rejected").exists()


@pytest.fixture
def actuator(tmp_path):
    """Serve an actuator on the interrupts of a host; yields its socket, and what ends it."""
    (tmp_path / "host/proc/irq/24").mkdir(parents=True)
    (tmp_path / "host/proc/irq/24/smp_affinity_list").write_text("0-7\n")
    (tmp_path / "host/proc/irq/default_smp_affinity").write_text("ff\n")
    (tmp_path / "host/sys/kernel/irq/24").mkdir(parents=True)
    for name, text in (("chip_name", "PCI-MSIX"), ("hwirq", "7"), ("actions", "eth0-rx-0")):
        (tmp_path / "host/sys/kernel/irq/24" / name).write_text(f"{text}\n")
    settings = ActuatorSettings(
        host_sys_root=str(tmp_path / "host/sys"),
        host_proc_root=str(tmp_path / "host/proc"),
        host_irq_root=str(tmp_path / "host/proc/irq"),
        state_dir=str(tmp_path / "journals"),
        actuator_socket=str(tmp_path / "a.sock"),
    )
    machine = HostSubsystems(settings, lambda *_a, **_k: None, drivers=[])
    server = Server(Path(settings.actuator_socket), machine.executors, Admission(0, 0), lambda *_a, **_k: None)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield settings.actuator_socket, machine
    server.shutdown()
    thread.join()
    server.server_close()
    machine.close()


async def test_interrupts_leave_the_cpus_of_a_balloon_that_wants_none_and_come_back(host, actuator):
    socket, machine = actuator
    affinity = host.root / "proc/irq/24/smp_affinity_list"
    file = host.root / "policy.yaml"
    types = [{"name": "quiet", "namespaces": ["default"], "irqMode": "isolate"}]
    spec = {"reservedResources": {"cpu": "cpuset:0"}, "balloonTypes": types}
    file.write_text(json.dumps({"apiVersion": "joulie.io/v1alpha1", "kind": "BalloonsPolicy", "spec": spec}))
    async with host.process(POLICY="balloons", CONFIG_FILE=str(file), ACTUATOR_SOCKET=socket) as running:
        await host.node.add(host.node.container("a", milli=2000))
        quiet = Cpus.parse(host.cpus()["a"])
        await host.until(lambda: Cpus.parse(affinity.read_text().partition("\n")[0]) == Cpus(range(8)) - quiet)
        assert len(quiet) == 2
        await host.until(lambda: running.manager.interrupts.report.moved == 1)
        described = json.loads((await running.get("/debug/placements"))[1])["interrupts"]
        assert described == {"claims": [], "sinks": "", "isolated": str(quiet), "moved": 1, "problem": None}
        await host.node.add(host.node.container("b", milli=1000))
        both = quiet | Cpus.parse(host.cpus()["b"])
        await host.until(lambda: Cpus.parse(affinity.read_text().partition("\n")[0]) == Cpus(range(8)) - both)
    # The lease is still running: a restart of the resource manager moves nothing.
    assert Cpus.parse(affinity.read_text().partition("\n")[0]) == Cpus(range(8)) - both
    assert machine.executors[Subsystem.INTERRUPTS].stop(time.monotonic() + 5)
    assert affinity.read_text().partition("\n")[0] == "0-7"


async def test_a_pod_on_cpus_whose_class_the_hardware_does_not_serve_gets_an_event(host, actuator):
    socket, _ = actuator
    file = host.root / "policy.yaml"
    types = [{"name": "dark", "namespaces": ["default"], "cpuClass": "night"}]
    classes = [{"name": "night", "disabledCstates": ["C99"]}]
    spec = {"reservedResources": {"cpu": "cpuset:0"}, "balloonTypes": types, "cpuClasses": classes}
    file.write_text(json.dumps({"apiVersion": "joulie.io/v1alpha1", "kind": "BalloonsPolicy", "spec": spec}))
    node_agent = NodeAgent()
    settings = {"POLICY": "balloons", "CONFIG_FILE": str(file), "ACTUATOR_SOCKET": socket}
    cluster = host.root / "agent.sock"
    async with serve_cluster(cluster, node_agent), host.process(NODE_AGENT_SOCKET=str(cluster), **settings):
        await host.node.add(host.node.container("a", milli=2000))
        await host.until(lambda: node_agent.events)
    (event,) = node_agent.events
    assert (event.pod, event.reason) == ("pod", "CpuClassNotInForce")
    assert event.message == "container a: CPU class night is not in force: disabled_idle_states: no idle state C99"


async def test_the_limits_by_class_of_cores_are_shown_and_counted_and_nothing_is_written(host, actuator, monkeypatch):
    monkeypatch.setattr(core_limits, "INTERVAL_S", 0.01)
    socket, _ = actuator
    file = host.root / "policy.yaml"
    types = [
        {"name": "quiet", "namespaces": ["default"], "cpuClass": "night", "preferNewBalloons": True},
    ]
    spec = {
        "reservedResources": {"cpu": "cpuset:0"},
        "balloonTypes": types,
        "cpuClasses": [{"name": "night", "maxFreq": "3GHz"}],
    }
    file.write_text(json.dumps({"apiVersion": "joulie.io/v1alpha1", "kind": "BalloonsPolicy", "spec": spec}))
    async with host.process(POLICY="balloons", CONFIG_FILE=str(file), ACTUATOR_SOCKET=socket) as running:
        allowing = {WORKLOAD_CLASS: "standard", MAX_SLOWDOWN: "50%"}
        for name, annotations in (("slow", allowing), ("fast", {WORKLOAD_CLASS: "performance"}), ("unknown", {})):
            await host.node.runtime.run_pod(host.node.pod(name, annotations=annotations))
            await host.node.add(host.node.container(name, pod=name, milli=2000))
        taken = {cpu for name in ("slow", "fast", "unknown") for cpu in Cpus.parse(host.cpus()[name])}
        assert len(taken) == 6
        # The class of the configuration is in force on all that have it, whatever a pod allows.
        await host.until(lambda: {ceiling_khz(host, cpu) for cpu in taken} == {3_000_000})
        limits = running.manager.core_limits
        before_s = limits.state.limited_core_s
        await host.until(
            lambda: [each.frequencies.ceiling_khz for each in limits.state.limits if each.limit_khz] == BOTH
        )
        await host.until(lambda: limits.state.limited_core_s > before_s)
        series = await running.series()
        described = json.loads((await running.get("/debug/placements"))[1])["coreLimits"]
        assert {cpu for cpu in range(8) if ceiling_khz(host, cpu) != 3_500_000} == taken
        assert {ceiling_khz(host, cpu) for cpu in taken} == {3_000_000}
    assert {reason: series["joulie_class_limit_cores", limited, reason] for limited, reason in LIMITED} == {
        "FrequencyLimited": 2,
        "NoSlowdownAllowed": 2,
        "HolderUnknown": 2,
        "Shared": 2,
    }
    assert series["joulie_class_limit_core_seconds_total",] > 0.0
    shown = [each for each in described if each["reason"] == "FrequencyLimited"]
    assert {each["cpus"] for each in shown} == {str(cpu) for cpu in Cpus.parse(host.cpus()["slow"])}
    assert {(*each["containers"], each["limitKhz"], each["ceilingKhz"], each["highestKhz"]) for each in shown} == {
        ("default/slow/slow", 2_400_000, 3_000_000, 3_500_000)
    }


BOTH = [3_000_000] * 2
LIMITED = (
    ("true", "FrequencyLimited"),
    ("false", "NoSlowdownAllowed"),
    ("false", "HolderUnknown"),
    ("false", "Shared"),
)


def ceiling_khz(host, cpu):
    return int((host.root / f"sys/devices/system/cpu/cpufreq/policy{cpu}/scaling_max_freq").read_text())


async def test_cores_are_limited_by_class_and_free_before_another_container_has_them(host, actuator, monkeypatch):
    monkeypatch.setattr(core_limit_enforcement, "STEP_S", 0.01)
    monkeypatch.setattr(core_limit_enforcement, "SETTLED_S", 0.1)
    socket, machine = actuator
    file = host.root / "policy.yaml"
    types = [{"name": "own", "namespaces": ["default"], "preferNewBalloons": True}]
    spec = {"reservedResources": {"cpu": "cpuset:0"}, "balloonTypes": types}
    file.write_text(json.dumps({"apiVersion": "joulie.io/v1alpha1", "kind": "BalloonsPolicy", "spec": spec}))
    settings = {"POLICY": "balloons", "CONFIG_FILE": str(file), "ACTUATOR_SOCKET": socket, "CLASS_LIMITS": "Enforce"}
    api_socket = host.root / "api.sock"
    async with host.process(**settings, API_SOCKET=str(api_socket)) as running:
        for turn in range(3):
            slow, fast = f"slow-{turn}", f"fast-{turn}"
            cpus = await add(host, slow, {WORKLOAD_CLASS: "standard", MAX_SLOWDOWN: "50%"})
            await host.until(lambda cpus=cpus: {ceiling_khz(host, cpu) for cpu in cpus} == {2_400_000})
            assert {ceiling_khz(host, cpu) for cpu in set(range(8)) - {*cpus}} == {3_500_000}
            series = await running.series()
            assert series["joulie_class_limit_set_cpus",] == 4
            described = json.loads((await running.get("/debug/placements"))[1])["coreLimits"]
            assert {each["setKhz"] for each in described} == {2_400_000}
            await host.node.runtime.stop_container(slow)
            assert await add(host, fast, {WORKLOAD_CLASS: "performance"}) == cpus
            # As soon as the runtime has its answer.
            assert {ceiling_khz(host, cpu) for cpu in range(8)} == {3_500_000}
            await host.node.runtime.stop_container(fast)
        assert (await running.series())["joulie_class_limit_core_late_total",] == 0
        cpus = await add(host, "by-namespace", {})
        async with told(api_socket, host.node.pod("by-namespace"), "25%"):
            await host.until(lambda: {ceiling_khz(host, cpu) for cpu in cpus} == {2_800_000})
            described = json.loads((await running.get("/debug/placements"))[1])
            assert {each["consents"] for each in described["coreLimits"]} == {True}
            assert described["podConsents"] == {"told": 1, "current": True}
        # Its Namespace allows nothing any more.
        async with told(api_socket, host.node.pod("by-namespace"), "0%"):
            await host.until(lambda: {ceiling_khz(host, cpu) for cpu in range(8)} == {3_500_000})
        await host.node.runtime.stop_container("by-namespace")
        cpus = await add(host, "last", {WORKLOAD_CLASS: "standard", MAX_SLOWDOWN: "50%"})
        await host.until(lambda: {ceiling_khz(host, cpu) for cpu in cpus} == {2_400_000})
    # Without the resource manager the limits end with their lease.
    assert machine.executors[Subsystem.CPU].stop(time.monotonic() + 5)
    assert {ceiling_khz(host, cpu) for cpu in range(8)} == {3_500_000}


@asynccontextmanager
async def told(socket, pod, allowed):
    """Tell what a pod allows by its Namespace, as the node agent does."""
    client = ConfigClient(socket)
    entry = pb.PodConsent(
        namespace=pod.namespace, pod=pod.name, pod_uid=pod.uid, allowed=allowed, source="namespace", consents=True
    )
    await client.set_pod_consents("n1", [entry])
    yield
    await client.close()


async def add(host, name, annotations):
    """Let a pod with one container of four CPUs run; return its CPUs as the reply to its creation has them."""
    await host.node.runtime.run_pod(host.node.pod(name, annotations=annotations))
    await host.node.add(host.node.container(name, pod=name, milli=4000))
    return Cpus.parse(host.cpus()[name])


async def test_limits_of_cores_are_not_set_without_an_actuator():
    with pytest.raises(SettingsError, match="CLASS_LIMITS is Enforce and ACTUATOR_SOCKET is not set"):
        read_settings(ResourcesSettings, {"CLASS_LIMITS": "Enforce"})


async def test_containers_read_their_cpus_and_memory_nodes_by_kind(node, tmp_path):
    root = tmp_path / "host"
    root.mkdir()
    hbm = AttachedMemory(MemoryKind.HBM, capacity_bytes=8 * GIB)
    host = Host(node, root, MachineShape(cores_per_node=8, attached=(hbm,), isolated=Cpus.parse("6-7")))
    settings = {"POLICY": "topology-aware", "EXPORT_HOST_DIR": "/run/joulie-resources"}
    async with host.process(**settings) as running:
        await node.runtime.run_pod(node.pod(annotations={f"memory-type.{DOMAIN}": "hbm"}))
        await host.node.add(host.node.container("a", milli=500))
        text = (root / "state/exported/a/resources.sh").read_text()
        values = dict(line.split("=") for line in text.splitlines())
        placed = host.node.runtime.containers["a"].linux.resources.cpu
        assert values["SHARED_CPUS"] == f'"{placed.cpus}"'
        assert placed.mems == "1"
        memory = {name: values[name] for name in values if name.endswith("_MEMS")}
        assert memory == {"ALL_MEMS": '"1"', "DRAM_MEMS": '""', "PMEM_MEMS": '""', "HBM_MEMS": '"1"'}
        assert (await running.series())["joulie_container_resources_file_failures_total",] == 0


async def test_without_the_setting_there_are_no_files_and_no_series_of_them(host):
    async with host.process() as running:
        await host.node.add(host.node.container("a"))
        assert not (host.root / "state/exported").exists()
        assert ("joulie_container_resources_file_failures_total",) not in await running.series()
