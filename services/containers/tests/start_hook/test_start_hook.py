"""The start hook as a process: what the runtime, the controller and a scrape see of it."""

import asyncio
import os
import time

import pytest

from joulie_actuator.server import Peer
from joulie_api.container_starts import LINE_LIMIT, ContainerStart, HookState
from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_containers.start_hook import controller as controller_module


async def registered(site):
    async with asyncio.timeout(10):
        return await site.runtime.registered()


async def test_a_container_is_created_unchanged_when_the_controller_answers(site):
    async with site.runtime.listening(site.nri_socket), site.running():
        identity = await registered(site)
        assert (identity.plugin_name, identity.plugin_idx) == ("joulie-start-hook", "95")
        async with site.controller() as controller:
            assert await controller.receive() == HookState(registered=True, deadline_s=0.5)
            before = time.monotonic()
            created = site.create()
            question = await controller.receive()
            assert question == ContainerStart(1, "ml", "serve", "u1", question.asked_at_s)
            assert before <= question.asked_at_s <= time.monotonic()
            assert not created.done()
            await controller.answer(1)
            assert await created == nri.CreateContainerResponse()
        series = await site.series()
    assert series['joulie_start_hook_containers_total{outcome="answered"}'] == 1
    assert series["joulie_start_hook_registered"] == 1
    assert series["joulie_start_hook_wait_seconds_total"] == series["joulie_start_hook_longest_wait_seconds"] > 0


async def test_the_runtime_is_asked_for_sandboxes_and_the_creation_of_containers_alone(site):
    async with site.runtime.listening(site.nri_socket), site.running():
        await registered(site)
        assert site.runtime.subscribed == [1 << (nri.RUN_POD_SANDBOX - 1) | 1 << (nri.CREATE_CONTAINER - 1)]


async def test_a_container_starts_at_the_deadline_without_an_answer(site):
    async with site.runtime.listening(site.nri_socket), site.running(START_DEADLINE="600ms"):
        await registered(site)
        async with site.controller() as controller:
            assert (await controller.receive()).deadline_s == 0.6
            begun = time.monotonic()
            await site.create()
            assert 0.6 <= time.monotonic() - begun < 10
            # An answer that comes too late is of no question any more.
            await controller.answer(1)
            second = site.create()
            assert [(await controller.receive()).number for _ in range(2)] == [1, 2]
            await controller.answer(2)
            await second
        series = await site.series()
    assert series['joulie_start_hook_containers_total{outcome="late"}'] == 1
    assert series['joulie_start_hook_containers_total{outcome="answered"}'] == 1


async def test_without_a_controller_a_container_starts_at_once(site):
    async with site.runtime.listening(site.nri_socket), site.running(START_DEADLINE="1500ms"):
        await registered(site)
        begun = time.monotonic()
        await site.create()
        assert time.monotonic() - begun < 1.0
        series = await site.series()
    assert series['joulie_start_hook_containers_total{outcome="no-controller"}'] == 1


async def test_a_controller_that_goes_lets_the_container_start(site):
    async with site.runtime.listening(site.nri_socket), site.running(START_DEADLINE="1500ms"):
        await registered(site)
        async with site.controller() as controller:
            await controller.receive()
            created = site.create()
            await controller.receive()
            begun = time.monotonic()
        await created
        assert time.monotonic() - begun < 1.0
        assert (await site.series())['joulie_start_hook_containers_total{outcome="no-controller"}'] == 1


async def test_the_deadline_stays_below_half_of_the_runtimes(site):
    site.runtime.request_timeout_s = 0.4
    async with site.runtime.listening(site.nri_socket), site.running():
        await registered(site)
        async with site.controller() as controller:
            assert await controller.receive() == HookState(registered=True, deadline_s=0.2)


async def test_the_controller_learns_that_the_runtime_has_gone_and_come_back(site):
    async with site.running(), site.controller() as controller:
        assert await controller.receive() == HookState(registered=False, deadline_s=0.5)
        async with site.runtime.listening(site.nri_socket):
            await registered(site)
            assert (await controller.receive()).registered
            await site.runtime.disconnect()
            assert not (await controller.receive()).registered
            await registered(site)
            assert (await controller.receive()).registered


async def test_the_newest_controller_is_asked_and_an_earlier_one_is_closed(site):
    async with site.runtime.listening(site.nri_socket), site.running():
        await registered(site)
        async with site.controller() as earlier:
            await earlier.receive()
            async with site.controller() as newer:
                await newer.receive()
                assert await earlier.receive() is None
                created = site.create()
                await newer.answer((await newer.receive()).number)
                await created


@pytest.mark.parametrize("line", [b"{}\n", b'{"number":-1}\n', b"\xff\n", b" " * (2 * LINE_LIMIT) + b"\n"])
async def test_a_controller_that_sends_no_answer_is_closed(site, line):
    async with site.runtime.listening(site.nri_socket), site.running():
        await registered(site)
        async with site.controller() as controller:
            await controller.receive()
            controller.writer.write(line)
            assert await controller.receive() is None
        await site.create()


async def test_a_controller_that_reads_nothing_is_asked_no_more(site, monkeypatch):
    async with site.runtime.listening(site.nri_socket), site.running(START_DEADLINE="1500ms"):
        await registered(site)
        async with site.controller() as controller:
            await controller.receive()
            # As where all of what may wait to be read does.
            monkeypatch.setattr(controller_module, "LINE_LIMIT", -1)
            begun = time.monotonic()
            await site.create()
            assert time.monotonic() - begun < 1.0
            assert (await site.series())['joulie_start_hook_containers_total{outcome="late"}'] == 1


async def test_a_peer_that_is_not_admitted_learns_nothing(site, monkeypatch):
    stranger = Peer(1, uid=os.geteuid() + 7, gid=os.getegid())
    monkeypatch.setattr(controller_module, "peer_of", lambda _socket: stranger)
    async with site.running(START_HOOK_CONTROLLER_UID="1"), site.controller() as controller:
        assert await controller.receive() is None


async def test_the_socket_is_the_controllers_group_alone_and_goes_with_the_process(site):
    async with site.running():
        assert site.socket.stat().st_mode & 0o777 == 0o660
    assert not site.socket.exists()
