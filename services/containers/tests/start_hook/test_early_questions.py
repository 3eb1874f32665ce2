"""Questions about pods whose sandbox was made: containers that are created afterwards mostly need not wait."""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest

from joulie_api.container_starts import ContainerStart
from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_containers.start_hook import plugin as plugin_module


@asynccontextmanager
async def asked(site, **settings):
    """Run the start hook, make the sandbox of the pod, and yield the controller and the question about it."""
    async with site.runtime.listening(site.nri_socket), site.running(**settings):
        async with asyncio.timeout(10):
            await site.runtime.registered()
        async with site.controller() as controller:
            await controller.receive()
            before = time.monotonic()
            await site.run_pod()
            question = await controller.receive()
            assert before <= question.asked_at_s <= time.monotonic()
            yield controller, question


async def answered(site, controller, **answer):
    """Answer the question of the sandbox, and wait until the start hook has read that."""
    await controller.answer(1, **answer)
    # The answer of a container of another pod is behind it on the same connection.
    site.runtime.pods["other"] = nri.PodSandbox(id="other", name="other", namespace="ml", uid="u2")
    created = asyncio.create_task(
        site.runtime.create_container(nri.Container(id="c-other", pod_sandbox_id="other", name="main"))
    )
    await controller.answer((await controller.receive()).number)
    await created


async def series(site):
    found = await site.series()
    return {
        outcome: found[f'joulie_start_hook_containers_total{{outcome="{outcome}"}}'] for outcome in ("answered", "late")
    }


async def test_a_sandbox_is_asked_about_and_the_runtime_does_not_wait(site):
    async with asked(site) as (_, question):
        assert question == ContainerStart(1, "ml", "serve", "u1", question.asked_at_s, early=True)


async def test_a_container_is_created_without_a_further_question_once_the_limits_are_lifted(site):
    async with asked(site) as (controller, _):
        await answered(site, controller, lifted=True)
        for _ in range(2):
            assert await site.create() == nri.CreateContainerResponse()
        assert await series(site) == {"answered": 3, "late": 0}
        # None of them has asked: the next message is about the next sandbox.
        await site.run_pod()
        assert (await controller.receive()).early


async def test_a_container_whose_limits_are_not_lifted_is_asked_about(site):
    async with asked(site) as (controller, _):
        await answered(site, controller, lifted=False)
        created = site.create()
        question = await controller.receive()
        assert (question.number, question.early, created.done()) == (3, False, False)
        await controller.answer(3)
        await created


@pytest.mark.parametrize(("number", "lifted"), [(1, True), (2, False)])
async def test_a_container_during_the_early_question_is_created_with_the_first_answer_that_lets_it(
    site, number, lifted
):
    async with asked(site) as (controller, _):
        created = site.create()
        assert (await controller.receive()).number == 2
        assert not created.done()
        await controller.answer(number, lifted=lifted)
        await created
        assert await series(site) == {"answered": 1, "late": 0}


async def test_a_container_during_the_early_question_waits_on_where_that_has_not_lifted(site):
    async with asked(site) as (controller, _):
        created = site.create()
        await controller.receive()
        await controller.answer(1, lifted=False)
        await controller.answer(2)
        await created
        assert await series(site) == {"answered": 1, "late": 0}


async def test_after_a_while_limits_may_be_back_and_a_container_is_asked_about(site, monkeypatch):
    async with asked(site) as (controller, _):
        await answered(site, controller, lifted=True)
        monkeypatch.setattr(plugin_module, "LIFTED_FOR_S", 0.0)
        created = site.create()
        await controller.answer((await controller.receive()).number)
        await created


async def test_a_sandbox_of_another_pod_of_the_name_does_not_count(site):
    async with asked(site) as (controller, _):
        await answered(site, controller, lifted=True)
        site.runtime.pods["p"] = nri.PodSandbox(id="p", name="serve", namespace="ml", uid="u3")
        created = site.create()
        question = await controller.receive()
        assert (question.uid, question.early) == ("u3", False)
        await controller.answer(question.number)
        await created


async def test_an_early_question_that_is_late_delays_no_container_and_it_is_asked_about(site):
    async with asked(site, START_DEADLINE="100ms") as (controller, _):
        begun = time.monotonic()
        await site.create()
        assert time.monotonic() - begun >= 0.1
        assert [(await controller.receive()).number] == [2]
        assert await series(site) == {"answered": 0, "late": 1}


async def test_without_a_controller_at_the_sandbox_a_container_is_asked_about(site):
    async with site.runtime.listening(site.nri_socket), site.running():
        async with asyncio.timeout(10):
            await site.runtime.registered()
        await site.run_pod()
        async with site.controller() as controller:
            await controller.receive()
            created = site.create()
            question = await controller.receive()
            assert not question.early
            await controller.answer(question.number)
            await created


async def test_no_more_than_so_many_pods_are_remembered(site, monkeypatch):
    monkeypatch.setattr(plugin_module, "MOST_WAITING", 1)
    async with asked(site) as (controller, _):
        site.runtime.pods["other"] = nri.PodSandbox(id="other", name="other", namespace="ml", uid="u2")
        await site.runtime.run_pod(site.runtime.pods["other"])
        created = site.create()
        assert [(await controller.receive()).uid] == ["u1"]
        await controller.answer(2)
        await created
