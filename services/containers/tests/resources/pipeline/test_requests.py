"""What the pipeline replies to each request of a runtime, and what it notes of it."""

import asyncio
from dataclasses import replace

import pytest
from services.containers.tests.resources.pipeline.pipeline_bench import TIMEOUT_S, PipelineBench, updates
from structlog.testing import capture_logs

from joulie_containers.nri.handler import RequestRefusedError
from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_containers.resources.cache import Cache
from joulie_core.containers.container import ContainerResources
from joulie_core.containers.policy import PowerProfileChanged


async def test_the_runtime_that_configures_the_plugin_is_passed_on_and_its_timeout_counts(bench):
    (runtime,) = bench.configured_by
    assert (runtime.name, runtime.request_timeout_s) == ("r", TIMEOUT_S)
    assert bench.pipeline._request_timeout_s == TIMEOUT_S


async def test_a_list_places_what_runs_and_updates_it_in_the_reply(tmp_path):
    bench = PipelineBench(tmp_path)
    listed = [
        bench.container("a", cpus="0-7"),
        bench.container("g", milli=2000, cpus="0-1"),
        bench.container("paused", state=nri.CONTAINER_PAUSED),
        bench.container("stopped", milli=1000, state=nri.CONTAINER_STOPPED),
        bench.container("lost", milli=1000, pod="gone"),
    ]
    listed[0].linux.cgroups_path = "/pods/a"
    with capture_logs() as logs:
        assert await bench.start(*listed) == {"a": "2-7", "paused": "2-7"}
    assert bench.engine.containers.keys() == {"a", "g", "paused"}
    assert [line["container"] for line in logs] == ["lost"]
    assert bench.pipeline.cgroups == {"a": "/pods/a"}


async def test_a_list_replaces_the_cgroups_that_were_known(bench):
    await bench.create("a")
    assert bench.pipeline.cgroups == {"a": "/pods/a"}
    assert updates(await bench.pipeline.synchronize([bench.pod], [bench.container("b")])) == {"b": "0-7"}
    assert bench.pipeline.cgroups == {}


async def test_a_container_that_is_created_when_it_is_listed_is_sent_its_values_again_when_it_runs(tmp_path):
    bench = PipelineBench(tmp_path)
    created = bench.container("a", cpus="0-3", state=nri.CONTAINER_CREATED)
    await bench.start(created, bench.container("g", milli=1000))
    assert bench.ledger.pending.keys() == {"a"}
    assert bench.ledger.batch() == []
    await bench.pipeline.container_running(bench.pod, created)
    assert bench.woken == 1
    assert [each.container for each in bench.ledger.batch()] == ["a"]


async def test_values_of_a_message_that_are_no_list_are_not_known(tmp_path):
    bench = PipelineBench(tmp_path)
    with capture_logs() as logs:
        assert await bench.start(bench.container("a", cpus="x")) == {"a": "0-7"}
    (line,) = [line for line in logs if line["event"] == "resources of a message not understood"]
    assert "x" in line["problem"]


async def test_the_reply_to_a_creation_has_the_values_the_classes_the_mount_and_the_updates(bench):
    await bench.create("a")
    reply = await bench.create("g", 2000)
    assert reply.adjust.linux.resources.cpu.cpus == "0-1"
    assert reply.adjust.linux.resources.rdt_class.value == "g in slice"
    assert [each.source for each in reply.adjust.mounts] == ["/files/g"]
    assert updates(reply) == {"a": "2-7"}
    assert bench.files.created == ["a", "g"]
    assert bench.pipeline.cgroups == {"a": "/pods/a", "g": "/pods/g"}
    assert bench.observer.requests == [("create", False)] * 2
    assert all(0 < each < 5 for each in bench.observer.times)
    assert Cache(bench.cache._directory).load().grants == {"a": {"cpus": ""}, "g": {"cpus": "0-1"}}


async def test_a_refused_creation_leaves_nothing_and_what_it_replaced_is_gone_from_the_cache(bench):
    await bench.create("g", 2000, called="main")
    bench.policy.restore = lambda _state, _container, _grant: None
    before = bench.files.woken
    with pytest.raises(RequestRefusedError, match="9 CPUs requested, 8 left"):
        await bench.create("again", 9000, called="main")
    assert (bench.wanted(), bench.pipeline.cgroups) == ({}, {"g": "/pods/g"})
    assert (bench.ledger.pending, bench.ledger._not_running) == ({}, set())
    assert Cache(bench.cache._directory).load().grants == {}
    assert bench.files.woken == before + 1
    assert bench.files.created == ["g"]


async def test_a_container_that_never_starts_leaves_its_neighbours_as_they_were(bench):
    await bench.create("a")
    await bench.create("g", 2000, runs=False)
    reply = await bench.pipeline.stop_container(bench.pod, bench.container("g"))
    assert updates(reply) == {"a": "0-7"}
    assert (bench.wanted(), bench.pipeline.cgroups) == ({"a": "0-7"}, {"a": "/pods/a"})
    assert bench.observer.requests[-1] == ("stop", False)


async def test_a_container_that_runs_wakes_the_updater_only_where_something_is_to_be_sent(bench):
    for name in ("a", "b"):
        await bench.create(name, runs=False)
    before = bench.woken
    await bench.pipeline.container_running(bench.pod, bench.container("a"))
    assert (bench.ledger.pending, bench.woken) == ({}, before)
    await bench.create("g", 1000)
    assert bench.ledger.pending.keys() == {"b"}
    before = bench.woken
    await bench.pipeline.container_running(bench.pod, bench.container("b"))
    assert bench.woken == before + 1


async def test_an_update_places_the_container_and_replies_with_all_that_follows(bench):
    await bench.create("a")
    await bench.create("g", 1000)
    resources = bench.container("x", milli=3000, cpus="5").linux.resources
    reply = await bench.pipeline.update_container(bench.pod, bench.container("g", milli=1000), resources)
    assert updates(reply) == {"a": "3-7", "g": "0-2"}
    assert bench.engine.originals["g"].resources.cpu_request_milli == 3000
    assert bench.observer.requests[-1] == ("update", False)
    assert bench.ledger.in_force("g").cpu_shares == 3072


async def test_an_update_that_cannot_be_placed_is_refused_and_nothing_changes(bench):
    await bench.create("g", 1000)
    resources = bench.container("x", milli=9000).linux.resources
    with pytest.raises(RequestRefusedError, match="9 CPUs requested"):
        await bench.pipeline.update_container(bench.pod, bench.container("g", milli=1000), resources)
    assert bench.wanted() == {"g": "0"}
    assert bench.ledger.in_force("g").cpu_shares is None


async def test_an_update_of_a_stopped_container_is_nothing(bench):
    stopped = bench.container("g", milli=1000, state=nri.CONTAINER_STOPPED)
    reply = await bench.pipeline.update_container(bench.pod, stopped, stopped.linux.resources)
    assert (reply, bench.wanted(), bench.observer.requests) == (nri.UpdateContainerResponse(), {}, [])


async def test_a_container_is_removed_whether_or_not_it_was_stopped_before(bench):
    for name in ("g", "h"):
        await bench.create(name, 1000)
    await bench.create("a")
    await bench.pipeline.stop_container(bench.pod, bench.container("g"))
    requests, woken = len(bench.observer.requests), bench.woken
    await bench.pipeline.remove_container(bench.pod, bench.container("g"))
    assert (len(bench.observer.requests), bench.woken) == (requests, woken)
    await bench.pipeline.remove_container(bench.pod, bench.container("h"))
    assert bench.observer.requests[-1] == ("remove", False)
    assert bench.woken > woken
    assert (bench.wanted(), bench.pipeline.cgroups) == ({"a": "0-7"}, {"a": "/pods/a"})


async def test_a_container_without_a_cgroup_is_removed(bench):
    await bench.start(bench.container("g", milli=1000))
    assert bench.pipeline.cgroups == {}
    await bench.pipeline.remove_container(bench.pod, bench.container("g"))
    assert bench.wanted() == {}


@pytest.mark.parametrize("request_name", ["stop_pod", "remove_pod"])
async def test_the_end_of_a_pod_is_the_end_of_its_containers_and_of_their_grants(bench, request_name):
    other = nri.PodSandbox(id="other", name="other", uid="u", namespace="default")
    for name in ("g", "h"):
        await bench.create(name, 1000)
    await bench.create("x", 1000, pod=other)
    await bench.pipeline.stop_container(bench.pod, bench.container("g"))
    assert bench.engine._ended.keys() == {("pod", "g")}
    await getattr(bench.pipeline, request_name)(bench.pod)
    assert (bench.wanted(), bench.pipeline.cgroups) == ({"x": "2"}, {"x": "/pods/x"})
    assert bench.engine._ended == {}
    assert bench.observer.requests[-1] == ("remove", False)


async def test_a_pod_that_begins_and_a_runtime_that_goes_change_nothing(bench):
    await bench.create("a")
    await bench.pipeline.run_pod(bench.pod)
    await bench.pipeline.disconnected()
    assert (bench.wanted(), bench.pipeline.cgroups) == ({"a": "0-7"}, {"a": "/pods/a"})


async def test_events_configurations_and_adjustments_are_carried_out_and_sent(bench):
    await bench.create("a")
    files, bench.woken = bench.files.woken, 0
    await bench.pipeline.policy_event(PowerProfileChanged("eco"))
    assert (bench.wanted(), bench.woken) == ({"a": "0-6"}, 1)
    await bench.pipeline.apply(bench.engine._configured)
    assert bench.woken == 2
    assert await bench.pipeline.adjust() == {}
    assert bench.woken == 3
    assert bench.observer.requests[1:] == [("policy_event", False), ("configure", False)]
    assert all(0 < each < 5 for each in bench.observer.times)
    assert bench.files.woken == files + 3


async def test_an_adjustment_without_room_is_returned(bench):
    await bench.create("g", 1000)
    bench.adjust = lambda each: replace(each, resources=ContainerResources(cpu_request_milli=9000))
    assert await bench.pipeline.adjust() == {"g": "9 CPUs requested, 8 left"}


async def test_requests_of_a_runtime_have_their_turn_one_after_the_other(bench):
    async with bench.busy():
        tasks = [asyncio.create_task(bench.create(name, 1000)) for name in ("g", "h")]
        await asyncio.sleep(0)
        assert bench.wanted() == {}
    await asyncio.gather(*tasks)
    assert bench.wanted() == {"g": "0", "h": "1"}
