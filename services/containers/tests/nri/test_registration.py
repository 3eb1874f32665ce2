"""A plugin against a fake runtime: what is registered, and which request reaches which method."""

import asyncio
import os
import socket

import pytest

from joulie_containers.nri import registration
from joulie_containers.nri.connection import NriConnection, NriEndpoint, nri_endpoint
from joulie_containers.nri.handler import NriDisconnectedError, NriRequestError, RequestRefusedError
from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_containers.nri.registration import EVENTS
from joulie_containers.nri.ttrpc import TtrpcError
from joulie_testing.agent.fake_nri_runtime import FakeNriRuntime


def cpus(text):
    return nri.LinuxResources(cpu=nri.LinuxCPU(cpus=text))


def update(container_id, text):
    return nri.ContainerUpdate(container_id=container_id, linux=nri.LinuxContainerUpdate(resources=cpus(text)))


def pod(pod_id="pod"):
    return nri.PodSandbox(id=pod_id, name=pod_id, uid=f"uid-{pod_id}", namespace="default")


def container(container_id="ctr", pod_id="pod"):
    return nri.Container(id=container_id, pod_sandbox_id=pod_id, name=container_id)


@pytest.fixture
def runtime():
    return FakeNriRuntime()


@pytest.fixture
async def plugin(runtime, handler, tmp_path):
    connection = NriConnection(
        handler, NriEndpoint(name="joulie", index="90", path=tmp_path / "nri.sock"), chance=lambda: 0.0
    )
    running = asyncio.create_task(connection.run())
    async with runtime.listening(tmp_path / "nri.sock"):
        yield connection
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def test_only_events_are_asked_for_that_every_runtime_knows():
    assert EVENTS == 0x6EF


async def test_a_plugin_registers_with_name_and_index(runtime, plugin):
    identity = await runtime.registered()
    assert (identity.plugin_name, identity.plugin_idx) == ("joulie", "90")


async def test_the_handler_is_given_the_runtime_and_its_timeouts(runtime, plugin, handler):
    runtime.request_timeout_s = 1.5
    await runtime.registered()
    assert (handler.runtime.name, handler.runtime.version) == ("fake", "v1")
    assert handler.runtime.request_timeout_s == 1.5
    assert handler.runtime.registration_timeout_s == 5.0


async def test_synchronize_passes_all_and_its_updates_are_carried_out(runtime, plugin, handler):
    runtime.pods["pod"] = pod()
    runtime.containers["ctr"] = container()

    async def synchronize(_pods, containers):
        return nri.SynchronizeResponse(update=[update(each.id, "0-1") for each in containers])

    handler.on["synchronize"] = synchronize
    await runtime.registered()
    assert handler.calls == [("configure",), ("synchronize", ["pod"], ["ctr"])]
    assert runtime.containers["ctr"].linux.resources.cpu.cpus == "0-1"
    assert plugin.state.registered


async def test_synchronize_in_chunks_is_passed_as_one(handler, tmp_path):
    runtime = FakeNriRuntime(synchronize_chunk=2)
    for each in "abcde":
        runtime.pods[each] = pod(each)
        runtime.containers[f"c{each}"] = container(f"c{each}", each)
    runtime.containers["cx"] = container("cx", "a")
    connection = NriConnection(handler, NriEndpoint(name="joulie", index="90", path=tmp_path / "nri.sock"))
    async with runtime.listening(tmp_path / "nri.sock"):
        running = asyncio.create_task(connection.run())
        await runtime.registered()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    synchronized = [call for call in handler.calls if call[0] == "synchronize"]
    assert synchronized == [("synchronize", list("abcde"), ["ca", "cb", "cc", "cd", "ce", "cx"])]


@pytest.mark.parametrize("per_event_requests", [False, True])
async def test_every_event_reaches_its_method(handler, tmp_path, per_event_requests):
    runtime = FakeNriRuntime(per_event_requests=per_event_requests)
    connection = NriConnection(handler, NriEndpoint(name="joulie", index="90", path=tmp_path / "nri.sock"))
    async with runtime.listening(tmp_path / "nri.sock"):
        running = asyncio.create_task(connection.run())
        await runtime.registered()
        handler.calls.clear()
        await runtime.run_pod(pod())
        await runtime.create_container(container())
        await runtime.start_container("ctr")
        await runtime.update_container("ctr", cpus("0"))
        await runtime.stop_container("ctr")
        await runtime.remove_container("ctr")
        await runtime.stop_pod("pod")
        await runtime.remove_pod("pod")
        calls = list(handler.calls)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert calls == [
        ("run_pod", "pod"),
        ("create_container", "pod", "ctr"),
        ("start_container", "pod", "ctr"),
        ("container_running", "pod", "ctr"),
        ("update_container", "pod", "ctr"),
        ("stop_container", "pod", "ctr"),
        ("remove_container", "pod", "ctr"),
        ("stop_pod", "pod"),
        ("remove_pod", "pod"),
    ]


async def test_an_adjustment_and_updates_of_others_are_replied(runtime, plugin, handler):
    runtime.pods["pod"] = pod()
    runtime.containers["old"] = container("old")

    async def create(_pod, _container):
        adjustment = nri.ContainerAdjustment(linux=nri.LinuxContainerAdjustment(resources=cpus("2-3")))
        return nri.CreateContainerResponse(adjust=adjustment, update=[update("old", "0-1")])

    handler.on["create_container"] = create
    await runtime.registered()
    await runtime.create_container(container("new"))
    assert runtime.containers["new"].linux.resources.cpu.cpus == "2-3"
    assert runtime.containers["old"].linux.resources.cpu.cpus == "0-1"


async def test_a_refusal_reaches_the_runtime_with_its_text(runtime, plugin, handler):
    async def create(_pod, _container):
        raise RequestRefusedError("no balloon has room")

    handler.on["create_container"] = create
    await runtime.registered()
    runtime.pods["pod"] = pod()
    with pytest.raises(TtrpcError, match=r"^no balloon has room$"):
        await runtime.create_container(container())
    assert plugin.state.registered


async def test_a_failing_handler_fails_its_request_only(runtime, plugin, handler):
    async def run_pod(_pod):
        raise LookupError("internal error")

    handler.on["run_pod"] = run_pod
    await runtime.registered()
    with pytest.raises(TtrpcError, match="internal error") as raised:
        await runtime.run_pod(pod())
    assert raised.value.code == 2
    await runtime.stop_pod("pod")
    assert handler.calls[-1] == ("stop_pod", "pod")


async def test_requests_that_arrive_together_start_in_their_order(runtime, plugin, handler):
    await runtime.registered()
    handler.calls.clear()
    pods = [pod(f"pod-{n}") for n in range(50)]
    await asyncio.gather(*(runtime.run_pod(each) for each in pods))
    assert handler.calls == [("run_pod", each.id) for each in pods]


async def test_containers_are_updated_outside_of_requests(runtime, plugin):
    await runtime.registered()
    runtime.containers["ctr"] = container()
    assert await plugin.update_containers([update("ctr", "4-7")]) == []
    assert runtime.containers["ctr"].linux.resources.cpu.cpus == "4-7"


async def test_updates_that_the_runtime_refuses_are_returned(runtime, plugin):
    await runtime.registered()
    runtime.containers |= {"good": container("good"), "bad": container("bad")}
    runtime.refuse_updates = {"bad"}
    failed = await plugin.update_containers([update("good", "1"), update("bad", "1")])
    assert [each.container_id for each in failed] == ["bad"]


async def test_a_handler_cannot_update_containers(runtime, plugin, handler):
    async def run_pod(_pod):
        await plugin.update_containers([])

    handler.on["run_pod"] = run_pod
    await runtime.registered()
    with pytest.raises(TtrpcError, match="cannot be updated by a handler"):
        await runtime.run_pod(pod())


async def test_an_update_that_is_too_long_is_refused_and_the_connection_stays(runtime, plugin):
    await runtime.registered()
    with pytest.raises(NriRequestError, match="bytes"):
        await plugin.update_containers([update("c" * (5 << 20), "1")])
    assert await plugin.update_containers([]) == []


async def test_without_a_registration_nothing_is_updated(handler, tmp_path):
    connection = NriConnection(handler, NriEndpoint(name="joulie", index="90", path=tmp_path / "absent.sock"))
    with pytest.raises(NriDisconnectedError):
        await connection.update_containers([])


async def test_after_a_disconnection_the_plugin_registers_again_and_synchronizes(runtime, plugin, handler):
    await runtime.registered()
    await runtime.disconnect()
    await handler.until(1, "disconnected")
    assert not plugin.state.registered
    runtime.pods["new"] = pod("new")
    await runtime.registered()
    assert handler.calls == [
        ("configure",),
        ("synchronize", [], []),
        ("disconnected",),
        ("configure",),
        ("synchronize", ["new"], []),
    ]
    assert (plugin.state.registrations, plugin.state.failure) == (2, "")


async def test_a_handler_that_misses_the_deadline_is_cancelled_and_the_plugin_registers_again(runtime, plugin, handler):
    cancelled = asyncio.Event()

    async def run_pod(_pod):
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    runtime.request_timeout_s = 0.05
    handler.on["run_pod"] = run_pod
    await runtime.registered()
    with pytest.raises((TimeoutError, TtrpcError, ConnectionError)):
        await runtime.run_pod(pod())
    async with asyncio.timeout(10):
        await cancelled.wait()
    await runtime.disconnect()
    await runtime.registered()
    assert plugin.state.registrations == 2


async def test_requests_in_progress_have_ended_when_the_disconnection_is_noted(runtime, plugin, handler):
    entered = asyncio.Event()

    async def run_pod(_pod):
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            handler.calls.append(("ended",))

    handler.on["run_pod"] = run_pod
    await runtime.registered()
    running = asyncio.create_task(runtime.run_pod(pod()))
    await entered.wait()
    assert plugin.state.oldest_request is not None
    await runtime.disconnect()
    await handler.until(1, "disconnected")
    await asyncio.gather(running, return_exceptions=True)
    assert handler.calls[-2:] == [("ended",), ("disconnected",)]


async def test_the_runtime_may_appear_later(handler, tmp_path):
    connection = NriConnection(
        handler, NriEndpoint(name="joulie", index="90", path=tmp_path / "nri.sock"), chance=lambda: 0.0
    )
    running = asyncio.create_task(connection.run())
    async with asyncio.timeout(10):
        while not connection.state.failure:  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0)
    assert "No such file" in connection.state.failure
    runtime = FakeNriRuntime()
    async with runtime.listening(tmp_path / "nri.sock"):
        await runtime.registered()
        assert connection.state.failure == ""
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_configuration_that_the_handler_refuses_leaves_it_unregistered(runtime, plugin, handler):
    async def configure():
        raise RequestRefusedError("reserved CPUs are not available")

    handler.on["configure"] = configure
    with pytest.raises(TtrpcError, match="reserved CPUs are not available"):
        await runtime.registered()
    assert not plugin.state.registered
    await runtime.disconnect()
    await handler.until(1, "disconnected")


async def test_a_plugin_that_the_runtime_started_ends_with_its_connection(inherited, handler):
    async with inherited(handler) as (raw, connection):
        await raw.receive(84)
        raw.close()
    assert not connection.state.registered


def test_the_environment_of_the_runtime_goes_before_arguments():
    environ = {"NRI_PLUGIN_NAME": "installed", "NRI_PLUGIN_IDX": "10", "NRI_PLUGIN_SOCKET": "3"}
    endpoint = nri_endpoint(environ, path=None, name="joulie", index="90")
    assert endpoint == NriEndpoint(name="installed", index="10", descriptor=3)


def test_a_given_path_goes_before_the_default(tmp_path):
    given = nri_endpoint({}, path=tmp_path / "x", name="joulie", index="90")
    assert (given.path, given.descriptor) == (tmp_path / "x", None)
    assert str(nri_endpoint({}, path=None, name="joulie", index="90").path) == "/var/run/nri/nri.sock"


@pytest.mark.parametrize(
    ("name", "index"), [("", "90"), ("a b", "90"), ("joulie", "9"), ("joulie", "9a"), ("j", "900")]
)
def test_a_malformed_identity_is_an_error(name, index):
    with pytest.raises(ValueError, match="NRI plugin"):
        NriEndpoint(name=name, index=index)


async def test_an_inherited_descriptor_is_not_inherited_further(handler):
    runtime, plugin = socket.socketpair()
    plugin.set_inheritable(True)
    connection = NriConnection(handler, NriEndpoint(name="joulie", index="90", descriptor=plugin.detach()))
    running = asyncio.create_task(connection.run())
    runtime.setblocking(False)
    await asyncio.get_running_loop().sock_recv(runtime, 1)
    assert not os.get_inheritable(connection._endpoint.descriptor)
    runtime.close()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_runtime_that_never_completes_the_registration_is_left(handler, monkeypatch):
    monkeypatch.setattr(registration, "REGISTRATION_LIMIT_S", 0.02)
    runtime, plugin = socket.socketpair()
    connection = NriConnection(handler, NriEndpoint(name="joulie", index="90", descriptor=plugin.detach()))
    with pytest.raises(TimeoutError, match=r"not registered within 0\.02 s"):
        await connection.run()
    runtime.close()
    assert handler.calls == []


async def test_an_update_without_reply_is_an_error_and_the_connection_stays(runtime, plugin, handler, monkeypatch):
    await runtime.registered()
    async with runtime.busy():
        with monkeypatch.context() as short:
            short.setattr(registration, "_CALL_TIMEOUT_S", 0.02)
            with pytest.raises(NriRequestError, match=r"no reply to UpdateContainers within 0\.02 s"):
                await plugin.update_containers([])
    assert await plugin.update_containers([]) == []


async def test_an_update_fails_when_the_runtime_disconnects(runtime, plugin, handler):
    await runtime.registered()
    async with runtime.busy():
        updating = asyncio.create_task(plugin.update_containers([]))
        while plugin._registration._client._waiting == {}:  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0)
        await runtime.disconnect()
        with pytest.raises(NriDisconnectedError):
            await updating


async def test_a_list_of_more_than_fits_is_refused_and_the_next_one_is_read(runtime, plugin, handler, monkeypatch):
    monkeypatch.setattr(registration, "MOST_LISTED_BYTES", 3000)
    runtime._synchronize_chunk = 1
    for number in range(5):
        each = pod()
        each.id, each.annotations["a"] = f"p{number}", "x" * 1000
        runtime.pods[each.id] = each
    with pytest.raises(TtrpcError, match="more than 3000 bytes") as caught:
        await runtime.registered()
    assert caught.value.code == 8
    assert ("synchronize",) not in {call[:1] for call in handler.calls}
    del runtime.pods["p4"], runtime.pods["p3"], runtime.pods["p2"]
    await runtime.disconnect()
    await runtime.registered()
    assert handler.calls[-1] == ("synchronize", ["p0", "p1"], [])
