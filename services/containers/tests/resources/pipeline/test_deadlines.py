"""Requests that do not get their turn in time, or are given up by the runtime."""

import asyncio

import pytest
from services.containers.tests.resources.pipeline.pipeline_bench import BUSY_TIMEOUT_S, Files, PipelineBench, updates
from structlog.testing import capture_logs

from joulie_containers.nri.handler import RequestRefusedError
from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_containers.resources.settings import OnDeadline
from joulie_containers.resources.updates import nothing_to_settle


async def test_a_late_creation_is_replied_to_without_values_and_carried_out_afterwards(bench):
    await bench.create("a")
    async with bench.busy():
        with capture_logs() as logs:
            reply = await bench.create("g", 2000)
        assert reply == nri.CreateContainerResponse(adjust=nri.ContainerAdjustment())
        assert bench.observer.requests[-1] == ("create", True)
        assert bench.observer.times[-1] == pytest.approx(0.6 * BUSY_TIMEOUT_S, rel=0.5)
        assert [(line["event"], line["request"]) for line in logs] == [("request answered before its turn", "create")]
        woken = bench.woken
    await bench.settled()
    assert bench.wanted() == {"a": "2-7", "g": "0-1"}
    assert bench.woken > woken
    assert bench.engine.created_with("g").rdt is None
    assert bench.files.created == ["a"]


async def test_a_late_container_may_run_anywhere_until_the_runtime_has_moved_it(bench):
    async with bench.busy():
        await bench.create("g", 2000)
        assert bench.pipeline.has_unplaced
    await bench.settled()
    assert bench.pipeline.has_unplaced
    batch = bench.ledger.batch()
    assert [each.container for each in batch] == ["g"]
    bench.ledger.settle(batch, {"g"})
    assert bench.pipeline.has_unplaced
    bench.ledger.settle(batch, ())
    assert not bench.pipeline.has_unplaced


async def test_a_late_container_that_cannot_be_placed_may_run_anywhere_until_it_ends(bench):
    async with bench.busy():
        await bench.create("g", 9000)
    await bench.settled()
    assert bench.pipeline.has_unplaced
    await bench.pipeline.remove_container(bench.pod, bench.container("g"))
    assert not bench.pipeline.has_unplaced


async def test_the_next_listing_has_the_late_containers_as_well(bench):
    async with bench.busy():
        await bench.create("g", 9000)
    await bench.settled()
    await bench.pipeline.synchronize([bench.pod], [bench.container("g", milli=9000)])
    assert not bench.pipeline.has_unplaced
    assert (list(bench.engine.containers), bench.engine.placements) == (["g"], {})


async def test_no_answer_is_given_before_the_cpus_may_be_given(bench):
    seen = []

    async def before_reply():
        seen.append(bench.wanted())

    bench.before_reply = before_reply
    await bench.create("g", 2000)
    assert seen[0] == {"g": "0-1"}
    seen.clear()
    await bench.pipeline.stop_container(bench.pod, bench.container("g"))
    assert seen == [{}]
    seen.clear()
    async with bench.busy():
        await bench.create("late", 1000)
        assert seen == [{}]
    await bench.settled()
    assert seen == [{}, {"late": "0"}]


async def test_a_late_answer_does_not_wait_for_long(bench):
    async def before_reply():
        await asyncio.sleep(5)

    async with bench.busy():
        bench.before_reply = before_reply
        async with asyncio.timeout(1):
            await bench.create("g", 1000)
        bench.before_reply = nothing_to_settle
    await bench.settled()


async def test_a_creation_in_time_has_its_classes(bench):
    await bench.create("g")
    assert bench.engine.created_with("g").rdt == "gold"


async def test_a_late_successor_starts_with_the_values_of_the_container_that_it_follows(bench):
    await bench.create("old", 1000, called="main")
    await bench.create("side", 2000)
    other = nri.PodSandbox(id="other", name="other", uid="u", namespace="default")
    async with bench.busy():
        new = await bench.create("new", 1000, called="main")
        stranger = await bench.create("stranger", 1000, called="main", pod=other)
    assert new.adjust.linux.resources.cpu.cpus == "0"
    assert stranger.adjust.linux.resources.cpu.cpus == ""
    await bench.settled()


async def test_a_late_creation_that_cannot_be_placed_is_logged(bench):
    async with bench.busy():
        await bench.create("g", 9000)
    with capture_logs() as logs:
        await bench.settled()
    assert [(line["event"], line["log_level"], line["request"]) for line in logs] == [
        ("request not carried out", "warning", "create")
    ]
    assert "9 CPUs requested" in logs[0]["reason"]
    assert bench.wanted() == {}


async def test_late_work_that_fails_is_logged_as_an_error(bench, monkeypatch):
    async def fail(*_args, **_kwargs):
        raise OSError("broken")

    monkeypatch.setattr(bench.engine, "create", fail)
    async with bench.busy():
        await bench.create("g", 1000)
        woken = bench.woken
    with capture_logs() as logs:
        await bench.settled()
    (line,) = logs
    assert (line["event"], line["log_level"], line["request"]) == ("request failed", "error", "create")
    assert str(line["exc_info"]) == "broken"
    assert bench.woken == woken + 1


async def test_a_late_creation_is_refused_where_that_is_configured(tmp_path):
    bench = PipelineBench(tmp_path, on_deadline=OnDeadline.REJECT, files=Files())
    await bench.start()
    async with bench.busy():
        with pytest.raises(RequestRefusedError, match="this one was not in time"):
            await bench.create("g", 1000)
    await bench.settled()
    assert (bench.wanted(), bench.pipeline.cgroups, bench.files.created) == ({}, {}, [])
    assert bench.ledger._not_running == set()


async def test_other_late_requests_are_replied_to_without_updates(bench):
    await bench.create("a")
    await bench.create("g", 2000)
    message = bench.container("g", milli=2000)
    async with bench.busy():
        replies = [
            await bench.pipeline.update_container(bench.pod, message, bench.container("x", milli=3000).linux.resources),
            await bench.pipeline.stop_container(bench.pod, message),
            await bench.pipeline.synchronize([bench.pod], [bench.container("b", milli=1000)]),
        ]
        assert [updates(each) for each in replies] == [{}, {}, {}]
        assert bench.observer.requests[-3:] == [("update", True), ("stop", True), ("synchronize", True)]
        assert bench.wanted() == {"a": "2-7", "g": "0-1"}
    await bench.settled()
    assert bench.wanted() == {"b": "0"}


async def test_a_list_while_others_are_busy_tells_at_once_which_containers_do_not_run(bench):
    async with bench.busy():
        created = bench.container("b", milli=1000, state=nri.CONTAINER_CREATED)
        await bench.pipeline.synchronize([bench.pod], [created, bench.container("c")])
        assert bench.ledger._not_running == {"b"}
        await bench.pipeline.container_running(bench.pod, created)
    await bench.settled()
    first = bench.ledger.batch()
    assert [each.container for each in first] == ["c"], "it has to leave the CPU of the other"
    bench.ledger.settle(first, [])
    assert [each.container for each in bench.ledger.batch()] == ["b"]


async def test_a_creation_whose_registration_has_ended_is_replied_to_with_nothing(bench, monkeypatch):
    create = bench.engine.create

    async def created(info, **options):
        await create(info, **options)
        bench.engine.release([info.id])

    monkeypatch.setattr(bench.engine, "create", created)
    assert await bench.create("g", 1000) == nri.CreateContainerResponse(adjust=nri.ContainerAdjustment())


async def test_a_request_that_the_runtime_gives_up_is_carried_out(bench):
    await bench.create("a")
    async with bench.busy():
        stopping = asyncio.create_task(bench.pipeline.stop_container(bench.pod, bench.container("a")))
        await asyncio.sleep(0.01)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        woken = bench.woken
    await bench.settled()
    assert (bench.wanted(), bench.woken) == ({}, woken + 1)


async def test_work_that_is_cancelled_itself_is_no_error(bench):
    async with bench.busy():
        await bench.create("g", 1000)
        (work,) = bench.pipeline._work
        with capture_logs() as logs:
            work.cancel()
            await bench.settled()
    assert logs == []
    assert bench.wanted() == {}
