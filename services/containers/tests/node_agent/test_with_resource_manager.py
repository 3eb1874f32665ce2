"""A node agent and a resource manager, each as in its process, on an API server, a runtime and an invented machine."""

import asyncio
from contextlib import asynccontextmanager

from services.containers.tests.node_agent.documents import make_adjustment, make_policy
from services.containers.tests.node_agent.test_reports import DEFINITION

from joulie_api.settings import read_settings
from joulie_containers.node_agent.consents import PodConsentsWatch
from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_containers.resources import core_limits, process
from joulie_containers.resources.settings import ResourcesSettings
from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown
from joulie_core.labels import MAX_SLOWDOWN, POWER_PROFILE
from joulie_testing.agent.fake_nri_runtime import FakeNriRuntime
from joulie_testing.agent.host_files import put_host
from joulie_testing.api import make_pod
from joulie_testing.core.machines import MachineShape


@asynccontextmanager
async def resource_manager(stage, policy="template", on_start=lambda _app, _manager: None):
    """Run a resource manager of 8 CPUs in place of the scripted one, beside a runtime with one container.

    Args:
        on_start: gets the manager once it listens.
    """
    await stage.manager.stop()
    root = stage.directory / "host"
    put_host(root, MachineShape(packages=2, cores_per_node=4).topology())
    env = {
        "POLICY": policy,
        "NODE_NAME": "n1",
        "HOST_ROOT": str(root),
        "STATE_DIR": str(stage.directory / "state"),
        "NRI_SOCKET": str(stage.directory / "nri.sock"),
        "METRICS_ADDR": "127.0.0.1:0",
        "API_SOCKET": str(stage.manager.socket),
        "NODE_AGENT_SOCKET": str(stage.directory / "cluster.sock"),
    }
    runtime = FakeNriRuntime()
    runtime.pods["pod"] = nri.PodSandbox(id="pod", name="pod", uid="uid-pod", namespace="ns")
    runtime.containers["main"] = nri.Container(
        id="main", pod_sandbox_id="pod", name="main", state=nri.CONTAINER_RUNNING
    )
    async with runtime.listening(stage.directory / "nri.sock"):
        task = asyncio.create_task(process.run(read_settings(ResourcesSettings, env), on_start=on_start))
        registered = asyncio.create_task(runtime.registered())
        await asyncio.wait({task, registered}, return_when=asyncio.FIRST_COMPLETED)
        try:
            yield runtime
        finally:
            registered.cancel()
            task.cancel()
            await asyncio.gather(task, registered, return_exceptions=True)


async def test_a_configuration_is_in_force_or_its_status_names_the_field(stage):
    stage.api.put(make_policy("default", availableResources={"cpu": "cpuset:0-3"}))
    async with resource_manager(stage), stage.agent():
        await stage.until_entry("TemplatePolicy", "default", status="Success")
        stage.api.patch("TemplatePolicy", "default", {"spec": {"availableResources": {"cpu": "cpuset:4000"}}})
        entry = await stage.until_entry("TemplatePolicy", "default", status="Failure", generation=2)
        assert "availableResources" in entry["errors"]
        stage.api.patch("TemplatePolicy", "default", {"spec": {"availableResources": {"cpu": "many"}}})
        entry = await stage.until_entry("TemplatePolicy", "default", status="Failure", generation=3)
        assert "many" in entry["errors"]


async def test_a_configuration_of_another_policy_is_refused(stage):
    stage.api.put(make_policy("default", "TopologyAwarePolicy"))
    async with resource_manager(stage), stage.agent():
        entry = await stage.until_entry("TopologyAwarePolicy", "default", status="Failure")
    assert "TemplatePolicy" in entry["errors"]


async def test_an_adjustment_that_contradicts_itself_is_refused_for_the_whole_object(stage):
    resources = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}
    stage.api.put_all([make_adjustment("bad", resources=resources), make_adjustment("good", classes={"cpu": "eco"})])
    async with resource_manager(stage), stage.agent():
        entry = await stage.until_entry("Adjustment", "bad", generation=1)
        assert list(entry["errors"]) == ["spec"]
        assert "limits.cpu: 1 is less than the request 2" in entry["errors"]["spec"]
        assert stage.entry("Adjustment", "good") is None


async def test_two_adjustments_of_one_container_are_an_error_of_both(stage):
    container = [{"containers": [{"key": "pod/name", "operator": "Equals", "values": ["pod"]}]}]
    for name in ("first", "second"):
        stage.api.put(make_adjustment(name, scope=container, classes={"cpu": "eco"}))
    stage.api.put(make_adjustment("third", scope=[{"nodes": ["n2"]}], classes={"cpu": "eco"}))
    async with resource_manager(stage), stage.agent():
        for name in ("first", "second"):
            entry = await stage.until_entry("Adjustment", name, generation=1)
            assert list(entry["errors"]) == ["ns/pod/main"]
        stage.api.remove("Adjustment", "second")
        await stage.api.wait_for(lambda: stage.entry("Adjustment", "first") is None)


async def test_the_pools_of_the_machine_are_published(stage):
    stage.api.put(DEFINITION)
    stage.api.put(make_policy("default", "TopologyAwarePolicy", agent={"nodeResourceTopology": True}))
    async with resource_manager(stage, "topology-aware"), stage.agent():
        await stage.api.wait_for(lambda: stage.api.get("NodeResourceTopology", "n1"))
    zones = stage.api.get("NodeResourceTopology", "n1")["zones"]
    names = {zone["name"] for zone in zones}
    assert len(zones) > 2
    assert all(zone.get("parent", zone["name"]) in names for zone in zones)
    assert zones[0]["resources"][0]["capacity"] == "8"


async def test_the_cpus_of_a_class_are_published_as_capacity_of_the_node_and_follow_the_configuration(stage):
    classes = [{"name": "night", "maxFreq": "min", "publishExtendedResource": True}, {"name": "day"}]
    types = [{"name": "dark", "cpuClass": "night", "maxCPUs": 3, "maxBalloons": 1}]
    policy = make_policy("default", "BalloonsPolicy", reservedResources={"cpu": "1"}, cpuClasses=classes)
    policy["spec"]["balloonTypes"] = types
    stage.api.put(policy)

    def published():
        capacity = stage.api.get("Node", "n1")["status"].get("capacity", {})
        return {name: amount for name, amount in capacity.items() if name.startswith("cpuclass.")}

    async with resource_manager(stage, "balloons"), stage.agent():
        await stage.api.wait_for(lambda: published() == {"cpuclass.joulie.io/night-milli": "3000"})
        types[0]["maxCPUs"] = 0
        stage.api.patch("BalloonsPolicy", "default", {"spec": {"balloonTypes": types}})
        await stage.api.wait_for(lambda: published() == {"cpuclass.joulie.io/night-milli": "7000"})
        stage.api.patch("BalloonsPolicy", "default", {"spec": {"cpuClasses": [{"name": "night"}]}})
        await stage.api.wait_for(lambda: published() == {})


async def test_containers_are_published_of_the_balloon_types_that_say_so(stage):
    stage.api.put(DEFINITION)
    policy = make_policy("default", "BalloonsPolicy", reservedResources={"cpu": "1"}, showContainersInNrt=True)
    policy["spec"]["agent"] = {"nodeResourceTopology": True}
    types = policy["spec"]["balloonTypes"] = [{"name": "dark", "namespaces": ["ns"], "showContainersInNrt": False}]
    stage.api.put(policy)

    def parents():
        found = stage.api.get("NodeResourceTopology", "n1") or {"zones": []}
        return {zone["name"]: zone.get("parent") for zone in found["zones"] if zone["name"].startswith("ns/")}

    async with resource_manager(stage, "balloons") as runtime, stage.agent():
        runtime.pods["other"] = nri.PodSandbox(id="other", name="other", uid="uid-other", namespace="ns/light")
        await runtime.create_container(nri.Container(id="b", pod_sandbox_id="other", name="main"))
        await stage.api.wait_for(lambda: parents() == {"ns/light/other/main": "default[0]"})
        types[0]["showContainersInNrt"] = True
        stage.api.patch("BalloonsPolicy", "default", {"spec": {"balloonTypes": types}})
        await stage.api.wait_for(lambda: parents().get("ns/pod/main") == "dark[0]")


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - conditions are on plain values
            await asyncio.sleep(0.005)


async def test_cores_follow_the_consent_of_the_namespace_of_a_pod_that_says_nothing_itself(stage, monkeypatch):
    monkeypatch.setattr(core_limits, "INTERVAL_S", 0.01)
    own = {"name": "own", "namespaces": ["ml"], "preferNewBalloons": True}
    stage.api.put(make_policy("default", "BalloonsPolicy", reservedResources={"cpu": "1"}, balloonTypes=[own]))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}}
    stage.api.put(namespace)
    for name, selector in (("slow", None), ("placed", {POWER_PROFILE: "performance"})):
        stage.api.put(make_pod(name, "ml", node="n1", node_selector=selector))
    stage.consents = PodConsentsWatch(stage.client, "n1", default=AllowedSlowdown.NONE, default_is_consent=False)
    managers = []

    def reasons():
        limits = managers[0].core_limits.state.limits
        return {(each.reason, each.consents, each.limit_khz) for each in limits if each.holders == ("ml/slow/main",)}

    async with (
        resource_manager(stage, "balloons", on_start=lambda _app, manager: managers.append(manager)) as runtime,
        stage.agent(),
    ):
        await stage.until_entry("BalloonsPolicy", "default", status="Success")
        for name in ("slow", "placed"):
            uid = stage.api.get("Pod", name, "ml")["metadata"]["uid"]
            runtime.pods[name] = nri.PodSandbox(id=name, name=name, uid=uid, namespace="ml")
            whole = nri.LinuxContainer(resources=nri.LinuxResources(cpu=nri.LinuxCPU(shares={"value": 2048})))
            await runtime.create_container(
                nri.Container(id=f"{name}-main", pod_sandbox_id=name, name="main", linux=whole)
            )
        await until(lambda: reasons() == {("NoSlowdownAllowed", False, None)})
        stage.api.put({**namespace, "metadata": {"name": "ml", "annotations": {MAX_SLOWDOWN: "25%"}}})
        await until(lambda: reasons() == {("FrequencyLimited", True, 2_800_000)})
        limits = managers[0].core_limits.state.limits
        assert {each.reason for each in limits if each.holders == ("ml/placed/main",)} == {"NoSlowdownAllowed"}
        stage.api.put(namespace)
        await until(lambda: reasons() == {("NoSlowdownAllowed", False, None)})
