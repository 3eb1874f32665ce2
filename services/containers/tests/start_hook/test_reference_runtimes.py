"""The start hook against the runtimes' own implementation of the interface, in three versions."""

import asyncio
import time

import pytest
from google.protobuf.json_format import MessageToDict

from joulie_api.container_starts import ContainerStart, HookState
from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_devcluster.nri_runtime import reference_nri_runtime

POD = MessageToDict(nri.PodSandbox(id="pod", name="serve", namespace="ml", uid="u1"))


def container(name):
    return MessageToDict(nri.Container(id=name, pod_sandbox_id="pod", name=name))


def is_empty(fields):
    """Whether nothing is adjusted: the runtime fills in messages without a value."""
    return isinstance(fields, dict) and all(is_empty(each) for each in fields.values())


@pytest.fixture
def runtime(nri_runtime_binary, tmp_path, site):
    return lambda **options: reference_nri_runtime(
        nri_runtime_binary, tmp_path / "runtime.log", socket=site.nri_socket, **options
    )


async def test_a_runtime_waits_for_the_answer_and_creates_the_container_as_it_is(site, runtime):
    async with runtime() as peer, site.running():
        await peer.command("await")
        async with site.controller() as controller:
            assert await controller.receive() == HookState(registered=True, deadline_s=0.5)
            await peer.command("run", pod=POD)
            early = await controller.receive()
            assert early == ContainerStart(1, "ml", "serve", "u1", early.asked_at_s, early=True)
            created = asyncio.create_task(peer.command("create", container=container("main")))
            question = await controller.receive()
            assert question == ContainerStart(2, "ml", "serve", "u1", question.asked_at_s)
            assert not created.done()
            await controller.answer(2)
            reply = await created
            # No other event of the container is a question.
            for op in ("start", "stop", "remove"):
                await peer.command(op, id="main")
            await peer.command("stop-pod", id="pod")
        assert not reply.get("updates")
        assert is_empty(reply.get("adjustment") or {})


async def test_a_runtime_creates_the_container_at_the_deadline_and_keeps_the_plugin(site, runtime):
    async with runtime() as peer, site.running(START_DEADLINE="200ms"):
        await peer.command("await")
        async with site.controller() as controller:
            await controller.receive()
            await peer.command("run", pod=POD)
            begun = time.monotonic()
            await peer.command("create", container=container("late"))
            assert 0.2 <= time.monotonic() - begun < 1.5
            created = asyncio.create_task(peer.command("create", container=container("next")))
            assert [(await controller.receive()).number for _ in range(3)] == [1, 2, 3]
            await controller.answer(3)
            await created
        assert list(await peer.containers()) == ["late", "next"]
        assert (await site.series())["joulie_start_hook_registered"] == 1
