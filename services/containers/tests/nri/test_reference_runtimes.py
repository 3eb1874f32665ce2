"""A plugin against the runtimes' own implementation of the interface, in three versions."""

import asyncio
import sys
from contextlib import asynccontextmanager

import pytest
from google.protobuf.json_format import MessageToDict

from joulie_containers.nri.connection import NriConnection, NriEndpoint
from joulie_containers.nri.handler import RequestRefusedError
from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_devcluster.nri_runtime import NriRuntimeError, reference_nri_runtime


def cpus(text):
    return nri.LinuxResources(cpu=nri.LinuxCPU(cpus=text))


def update(container_id, text):
    return nri.ContainerUpdate(container_id=container_id, linux=nri.LinuxContainerUpdate(resources=cpus(text)))


def pod(pod_id="pod", **annotations):
    return MessageToDict(nri.PodSandbox(id=pod_id, name=pod_id, namespace="default", annotations=annotations))


def container(container_id="ctr", pod_id="pod"):
    return MessageToDict(nri.Container(id=container_id, pod_sandbox_id=pod_id, name=container_id))


def cpus_of(containers):
    return {each: fields["linux"]["resources"].get("cpu", {}).get("cpus", "") for each, fields in containers.items()}


@pytest.fixture
def runtime(nri_runtime_binary, tmp_path):
    """Run the runtime on the socket of the plugin."""
    return lambda **options: reference_nri_runtime(
        nri_runtime_binary, tmp_path / "runtime.log", socket=tmp_path / "nri.sock", **options
    )


@pytest.fixture
def plugin(handler, tmp_path):
    """Run the plugin."""

    @asynccontextmanager
    async def run():
        endpoint = NriEndpoint(name="joulie", index="90", path=tmp_path / "nri.sock")
        connection = NriConnection(handler, endpoint, chance=lambda: 0.1)
        running = asyncio.create_task(connection.run())
        try:
            yield connection
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    return run


async def test_every_event_of_a_pod_is_answered(runtime, plugin, handler):
    async def synchronize(_pods, containers):
        return nri.SynchronizeResponse(update=[update(each.id, "0-3") for each in containers])

    async def create(_pod, container):
        adjustment = nri.ContainerAdjustment(linux=nri.LinuxContainerAdjustment(resources=cpus("2-3")))
        assert container.name == "new"
        return nri.CreateContainerResponse(adjust=adjustment, update=[update("old", "0-1")])

    async def change(_pod, _container, resources):
        return nri.UpdateContainerResponse(update=[update("new", resources.cpu.cpus + ",7")])

    async def stop(_pod, _container):
        return nri.StopContainerResponse(update=[update("old", "0-7")])

    handler.on |= {
        "synchronize": synchronize,
        "create_container": create,
        "update_container": change,
        "stop_container": stop,
    }
    async with runtime() as peer, plugin():
        await peer.command("add", pods=[pod("before")], containers=[container("old", "before")])
        await peer.command("await")
        assert cpus_of(await peer.containers()) == {"old": "0-3"}
        await peer.command("run", pod=pod())
        created = await peer.command("create", container=container("new"))
        assert created["adjustment"]["linux"]["resources"]["cpu"]["cpus"] == "2-3"
        assert [each["containerId"] for each in created["updates"]] == ["old"]
        assert cpus_of(await peer.containers()) == {"old": "0-1", "new": "2-3"}
        await peer.command("start", id="new")
        await peer.command("update", id="new", resources={"cpu": {"cpus": "5"}})
        assert cpus_of(await peer.containers()) == {"old": "0-1", "new": "5,7"}
        await peer.command("stop", id="new")
        await peer.command("remove", id="new")
        assert cpus_of(await peer.containers()) == {"old": "0-7"}
        await peer.command("stop-pod", id="pod")
        await peer.command("remove-pod", id="pod")
        assert handler.calls == [
            ("configure",),
            ("synchronize", ["before"], ["old"]),
            ("run_pod", "pod"),
            ("create_container", "pod", "new"),
            ("start_container", "pod", "new"),
            ("container_running", "pod", "new"),
            ("update_container", "pod", "new"),
            ("stop_container", "pod", "new"),
            ("remove_container", "pod", "new"),
            ("stop_pod", "pod"),
            ("remove_pod", "pod"),
        ]


async def test_the_runtime_states_its_version_and_timeouts(runtime, plugin, handler, nri_runtime_binary):
    async with runtime(request_timeout_s=1.5) as peer, plugin():
        await peer.command("await")
    version = nri_runtime_binary.name.removeprefix("nri-runtime-")
    assert handler.runtime.version.startswith(f"v{version}.")
    assert (handler.runtime.request_timeout_s, handler.runtime.registration_timeout_s) == (1.5, 5.0)
    assert bool(handler.runtime.nri_version) == (version == "0.12")


async def test_more_than_one_message_of_pods_is_synchronized_at_once(runtime, plugin, handler):
    ids = [f"{n:04}" for n in range(700)]

    async def synchronize(_pods, containers):
        return nri.SynchronizeResponse(update=[update(each.id, "0-3") for each in containers])

    handler.on["synchronize"] = synchronize
    async with runtime() as peer, plugin():
        # 7 MB; a message may have 4 MiB.
        pods = [pod(each, text="x" * 10_000) for each in ids]
        await peer.command("add", pods=pods, containers=[container(f"c{each}", each) for each in ids])
        result = await peer.command("await")
        assert len(result["updates"]) == 700
        assert set(cpus_of(await peer.containers()).values()) == {"0-3"}
    assert handler.calls[1] == ("synchronize", ids, [f"c{each}" for each in ids])


async def test_a_reply_may_have_any_length(runtime, plugin, handler):
    length = 0

    async def create(_pod, _container):
        return nri.CreateContainerResponse(adjust=nri.ContainerAdjustment(annotations={"text": "x" * length}))

    handler.on["create_container"] = create
    async with runtime() as peer, plugin():
        await peer.command("await")
        await peer.command("run", pod=pod())
        # Around one and two buffers of the runtime's reader, and close to the longest message.
        for length in [*range(4030, 4100), *range(8120, 8195), 1_000_000, (4 << 20) - 100]:
            created = await peer.command("create", container=container(f"c{length}"))
            assert len(created["adjustment"]["annotations"]["text"]) == length


async def test_a_refusal_reaches_the_runtime(runtime, plugin, handler):
    async def create(_pod, _container):
        raise RequestRefusedError("no balloon has room")

    handler.on["create_container"] = create
    async with runtime() as peer, plugin():
        await peer.command("await")
        await peer.command("run", pod=pod())
        with pytest.raises(NriRuntimeError, match="no balloon has room"):
            await peer.command("create", container=container())
        assert await peer.containers() == {}
        await peer.command("stop-pod", id="pod")
    assert handler.calls[-2] == ("stop_pod", "pod")


async def test_containers_are_updated_without_a_request(runtime, plugin, handler):
    async with runtime() as peer, plugin() as connection:
        await peer.command("add", pods=[pod()], containers=[container("good"), container("bad")])
        await peer.command("await")
        await peer.command("refuse", ids=["bad"])
        failed = await connection.update_containers([update("good", "1"), update("bad", "1")])
        assert [each.container_id for each in failed] == ["bad"]
        assert cpus_of(await peer.containers()) == {"good": "1", "bad": ""}
        assert [each["failed"] for each in peer.events] == [["bad"]]


async def test_a_restarted_runtime_gets_the_plugin_back(runtime, plugin, handler):
    async with plugin() as connection:
        async with runtime() as peer:
            await peer.command("await")
        await handler.until(1, "disconnected")
        async with runtime() as peer:
            await peer.command("add", pods=[pod()])
            await peer.command("await")
            assert connection.state.registrations == 2
    assert ("synchronize", ["pod"], []) in handler.calls


async def test_the_runtime_goes_on_without_a_plugin_that_is_late_and_gets_it_back(runtime, plugin, handler):
    async def create(_pod, _container):
        await asyncio.Event().wait()

    async with runtime(request_timeout_s=1.0) as peer, plugin():
        await peer.command("await")
        await peer.command("run", pod=pod())
        handler.on["create_container"] = create
        await peer.command("create", container=container("late"))
        del handler.on["create_container"]
        await peer.command("await")
        await peer.command("create", container=container("next"))
        assert list(await peer.containers()) == ["late", "next"]
    assert handler.calls[-2:] == [("create_container", "pod", "next"), ("disconnected",)]


PLUGIN = """#!{python}
import asyncio, os, sys
from joulie_containers.nri.connection import NriConnection, nri_endpoint
from joulie_containers.nri.proto import nri_pb2 as nri

class Handler:
    async def configure(self, runtime):
        self.cpus = runtime.config
    async def synchronize(self, pods, containers):
        return nri.SynchronizeResponse()
    async def create_container(self, pod, container):
        resources = nri.LinuxResources(cpu=nri.LinuxCPU(cpus=self.cpus))
        linux = nri.LinuxContainerAdjustment(resources=resources)
        annotations = dict(name=os.environ["NRI_PLUGIN_NAME"])
        return nri.CreateContainerResponse(adjust=nri.ContainerAdjustment(linux=linux, annotations=annotations))
    async def nothing(self, *_):
        pass
    run_pod = stop_pod = remove_pod = start_container = container_running = remove_container = disconnected = nothing
    async def unexpected(self, *_):
        return []
    update_container = stop_container = unexpected

asyncio.run(NriConnection(Handler(), nri_endpoint(os.environ, path=None, name="x", index="00")).run())
"""


async def test_the_runtime_starts_a_plugin_that_is_installed(nri_runtime_binary, tmp_path):
    plugins, configuration = tmp_path / "plugins", tmp_path / "conf.d"
    plugins.mkdir()
    configuration.mkdir()
    (configuration / "90-joulie.conf").write_text("4-7")
    executable = plugins / "90-joulie"
    executable.write_text(PLUGIN.format(python=sys.executable))
    executable.chmod(0o755)
    async with reference_nri_runtime(
        nri_runtime_binary, tmp_path / "runtime.log", plugins=plugins, plugin_config=configuration
    ) as peer:
        await peer.command("run", pod=pod())
        created = await peer.command("create", container=container())
    assert created["adjustment"]["linux"]["resources"]["cpu"]["cpus"] == "4-7"
    assert created["adjustment"]["annotations"] == {"name": "joulie"}
