"""What the engine keeps of containers, and what it reports when they come, change and end."""

from dataclasses import replace

import pytest
from services.containers.tests.resources.engine.engine_bench import EngineBench, container, cpus

from joulie_containers.nri.handler import RequestRefusedError
from joulie_containers.resources.values import NO_CLASSES, CreationClasses
from joulie_core.containers.idset import Cpus
from joulie_core.containers.interrupts import NO_INTERRUPTS
from joulie_core.containers.policy import PowerProfileChanged


async def test_before_the_runtime_has_listed_its_containers_there_is_nothing(tmp_path):
    bench = EngineBench(tmp_path)
    await bench.configure()
    engine = bench.engine
    assert (engine.placements, engine.cpu_classes, engine.zones, engine.synchronized) == ({}, {}, (), False)
    await engine.handle(PowerProfileChanged("eco"))
    assert bench.policy.calls == []
    assert await bench.stored() is None


async def test_zones_classes_and_interrupts_are_those_of_the_policy(bench):
    await bench.engine.create(container("g", 2000))
    (zone,) = bench.engine.zones
    assert (zone.name, zone.containers) == ("shared", ("g",))
    assert bench.engine.cpu_classes == {"performance": Cpus.parse("0-1")}
    assert bench.recorder.classes == {"performance": "0-1"}
    assert [str(each.isolated) for each in bench.recorder.interrupts] == ["", "0-1"]
    bench.engine.release(["g"])
    assert bench.recorder.interrupts[-1] == NO_INTERRUPTS
    assert bench.recorder.classes == {}


async def test_the_runtimes_values_are_in_force_and_those_of_the_policy_wanted(bench):
    await bench.list(container("a"), container("g", 2000), a=cpus("2-7"), g=cpus("4-5"))
    assert bench.wanted() == {"a": "2-7", "g": "0-1"}
    assert bench.ledger.in_force("g") == cpus("4-5")
    assert bench.ledger.pending.keys() == {"g"}
    assert bench.engine.synchronized


async def test_a_list_replaces_everything_that_was_known(bench):
    await bench.engine.create(container("g", 2000))
    await bench.engine.create(container("h", 1000))
    bench.policy.calls.clear()
    await bench.list(container("h", 1000), container("a"))
    assert bench.engine.containers.keys() == bench.engine.originals.keys() == {"h", "a"}
    assert bench.policy.calls[0] == ("synchronize", {"h", "a"}, {"g": {"cpus": "0-1"}, "h": {"cpus": "2"}})
    assert bench.wanted() == {"h": "2", "a": "0-1,3-7"}
    assert bench.engine.created_with("g") == NO_CLASSES
    stored = await bench.stored()
    assert (stored.containers.keys(), stored.grants.keys()) == ({"h", "a"}, {"h", "a"})


async def test_a_new_configuration_is_stored_and_places_all_containers_by_their_grants(bench):
    await bench.engine.create(container("g", 2000))
    await bench.engine.create(container("a"))
    bench.policy.calls.clear()
    await bench.configure("1-5", manifest={"kind": "Other"})
    assert bench.policy.calls[0] == ("synchronize", {"g", "a"}, {"g": {"cpus": "0-1"}, "a": {"cpus": ""}})
    assert bench.wanted() == {"g": "1-2", "a": "3-5"}
    stored = await bench.stored()
    assert (stored.policy, stored.configuration) == ("slices", {"kind": "Other"})
    assert stored.grants == {"g": {"cpus": "1-2"}, "a": {"cpus": ""}}


async def test_a_container_that_a_new_configuration_rejects_keeps_its_cpus_and_owns_none(bench):
    await bench.engine.create(container("g", 4000))
    await bench.configure("0-2")
    assert bench.recorder.rejections == [("g", "4 CPUs requested, 3 left")]
    assert bench.wanted() == {"g": "0-3"}
    assert (bench.engine.placements, bench.ledger._exclusive) == ({}, {})


async def test_a_container_of_the_same_id_or_name_in_its_pod_is_replaced_and_no_other(bench):
    for each in (
        container("one", 1000, called="main"),
        container("side", 1000),
        container("two", 1000, pod="other", called="main"),
    ):
        await bench.engine.create(each)
    await bench.engine.create(container("three", 1000, called="main"))
    assert bench.wanted() == {"side": "1", "two": "2", "three": "0"}
    await bench.engine.create(container("side", 2000, called="renamed"))
    assert bench.wanted() == {"two": "2", "three": "0", "side": "1,3"}


async def test_a_refused_container_changes_nothing(bench):
    await bench.engine.create(container("a"))
    before = await bench.stored()
    with pytest.raises(RequestRefusedError, match="9 CPUs requested, 8 left"):
        await bench.engine.create(container("g", 9000))
    assert bench.recorder.rejections == [("g", "9 CPUs requested, 8 left")]
    assert bench.engine.containers.keys() == bench.engine.originals.keys() == bench.engine.placements.keys() == {"a"}
    assert bench.engine.created_with("g") == NO_CLASSES
    assert await bench.stored() == before


@pytest.mark.parametrize(("with_classes", "rdt"), [(True, "class of 3000m"), (False, None)])
async def test_a_container_has_the_classes_that_it_was_created_with(bench, with_classes, rdt):
    bench.adjusted(cpu_request_milli=3000)
    await bench.engine.create(container("g", 1000), with_classes=with_classes)
    assert bench.engine.created_with("g") == CreationClasses(rdt=rdt)
    assert (await bench.stored()).containers["g"].rdt_class == rdt
    bench.engine.release(["g"])
    assert bench.engine.created_with("g") == NO_CLASSES


async def test_a_container_that_is_updated_before_it_is_known_has_no_classes(bench):
    await bench.engine.update(container("g", 1000))
    assert (bench.wanted(), bench.engine.created_with("g")) == ({"g": "0"}, NO_CLASSES)


async def test_an_update_changes_the_container_with_and_without_its_adjustment(bench):
    bench.adjusted(memory_limit_bytes=7)
    await bench.engine.create(container("g", 1000))
    await bench.engine.update(container("g", 3000))
    assert bench.wanted() == {"g": "0-2"}
    assert bench.engine.originals["g"] == container("g", 3000)
    assert bench.engine.containers["g"].resources.memory_limit_bytes == 7
    assert bench.engine.known_resources("g").resources == container("g", 3000).resources
    stored = (await bench.stored()).containers["g"]
    assert (stored.cpu_request_milli, stored.set_memory_limit_bytes, stored.rdt_class) == (3000, 7, "class of 1000m")


async def test_an_update_that_is_refused_changes_nothing(bench):
    await bench.engine.create(container("g", 1000))
    before = await bench.stored()
    with pytest.raises(RequestRefusedError, match="9 CPUs requested"):
        await bench.engine.update(container("g", 9000))
    assert bench.recorder.rejections == [("g", "9 CPUs requested, 8 left")]
    assert (bench.wanted(), bench.engine.originals["g"]) == ({"g": "0"}, container("g", 1000))
    assert await bench.stored() == before


async def test_the_policy_sees_a_changed_request_or_pod_and_nothing_else(bench):
    await bench.engine.create(container("g", 1000))
    bench.policy.calls.clear()
    await bench.engine.update(container("g", 1000))
    await bench.engine.update(replace(container("g", 1000), labels={"x": "y"}))
    assert bench.policy.calls == []
    await bench.engine.update(container("g", 1000, annotations={"x": "y"}))
    await bench.engine.update(container("g", 2000, annotations={"x": "y"}))
    assert [call for call in bench.policy.calls if call[0] == "update"] == [("update", "g")] * 2


async def test_containers_that_move_are_told_and_new_ones_are_not(bench):
    await bench.engine.create(container("a"))
    await bench.engine.create(container("b"))
    assert bench.recorder.moves == []
    await bench.engine.create(container("g", 1000))
    assert sorted(bench.recorder.moves) == ["a", "b"]
    bench.recorder.moves.clear()
    await bench.configure()
    assert bench.recorder.moves == []


async def test_a_timer_and_a_warning_of_the_policy_are_passed_on_with_the_container(bench):
    told = []
    bench.recorder.warned = lambda info, warning: told.append((info.title, warning.reason))
    await bench.engine.create(container("g", 1000, annotations={"bad": "", "cold": ""}))
    assert told == [("ns/pod/g", "InvalidAnnotation")]
    assert [timer.event.container for timer in bench.recorder.requested_timers] == ["g"]


async def test_an_event_changes_placements(bench):
    await bench.engine.create(container("a"))
    await bench.engine.handle(PowerProfileChanged("eco"))
    assert (bench.wanted(), bench.recorder.moves) == ({"a": "0-6"}, ["a"])


async def test_containers_that_are_not_known_are_released_without_a_change(bench):
    await bench.engine.create(container("g", 1000))
    bench.ledger.want("gone", cpus("5"))
    bench.engine.release(["gone", "never"])
    assert (bench.wanted(), bench.ledger.pending.keys()) == ({"g": "0"}, {"g"})
    bench.engine.release(["never", "g"])
    assert (bench.wanted(), bench.ledger.pending) == ({}, {})
    assert (await bench.stored()).grants == {}
