"""Restarts, changed configurations and machines: what stays, and what is placed anew."""

import json
from dataclasses import replace

import pytest

from joulie_core.containers.container import ContainerResources
from joulie_core.containers.differences import changed_keys
from joulie_core.containers.idset import IdSet
from joulie_testing.core.containers import container
from joulie_testing.core.machines import GIB, LARGE

PRESERVE = "cpu.preserve.resource-policy.nri.io"
T = {"name": "t", "namespaces": ["default"], "maxCPUs": 4}
U = {"name": "u", "namespaces": ["u"], "preferNewBalloons": True}
SPARE = {"name": "spare", "minBalloons": 2, "minCPUs": 2}
SOME = [
    container("a", 3000, memory_bytes=GIB, created_ns=1),
    container("b", 1500, created_ns=2),
    container("c", 700, namespace="u", created_ns=3),
    container("d", 2000, namespace="u", memory_bytes=GIB, created_ns=3),
    container("s", 100, namespace="kube-system", created_ns=4),
]


def test_a_restart_moves_nothing_in_whatever_order_containers_are_listed(node):
    found = node(T, U, SPARE).add(SOME[4], SOME[2], SOME[0], SOME[3], SOME[1]).remove("c").add(SOME[2])
    before = found.state
    assert found.synchronize(*SOME).state == before
    assert found.synchronize(*reversed(SOME)).state == before


def test_empty_balloons_stay_where_they_are_even_if_only_preserved_containers_tell_of_them(node):
    found = node(SPARE).add(container("x", 9000), container("p", annotations={PRESERVE: "true"}))
    found.configure(SPARE | {"minBalloons": 3})
    found.synchronize(container("x", 9000), container("p", annotations={PRESERVE: "true"})).remove("x")
    before = found.state
    assert found.synchronize(container("p", annotations={PRESERVE: "true"})).state == before


def test_a_container_that_is_started_again_is_in_the_balloon_that_it_had(node):
    found = node(T, U, SPARE).add(*SOME)
    before = found.state
    for each in SOME:
        ended = found.policy.release(before, each.id).state
        again = found.policy.restore(ended, each, found.policy.grants(before)[each.id])
        assert again.state.placements == before.placements
        assert again.state.balloons == before.balloons
        found.policy.check(again.state)


def test_a_balloon_whose_cpus_others_have_by_now_is_not_restored(node):
    found = node(T, U)
    alone = found.policy.allocate(found.state, SOME[3])
    grant = found.policy.grants(alone.state)[SOME[3].id]
    crowded = found.add(container("x", 2000, namespace="u")).state
    assert found.policy.restore(crowded, SOME[3], grant) is None


def test_a_balloon_that_has_no_room_any_more_is_not_joined_again(node):
    found = node(T).add(container("a", 3000), container("b", 1000))
    grant = found.policy.grants(found.state)["b"]
    found.remove("b").add(container("x", 1000))
    assert found.zone("a") == found.zone("x")
    assert found.policy.restore(found.state, container("b", 1000), grant) is None


def test_a_container_of_another_type_by_now_is_not_put_into_the_balloon_that_it_had(node):
    found = node(T, U).add(SOME[0])
    grant = found.policy.grants(found.state)["a"]
    found.remove("a")
    assert found.policy.restore(found.state, container("a", 3000, namespace="u"), grant) is None
    assert found.policy.restore(found.state, SOME[0], {}) is None


def test_an_event_makes_nothing_anew_but_what_it_changes(node):
    shared = {"name": "shared", "namespaces": ["web"], "minCPUs": 2, "shareIdleCPUsInSame": "system"}
    found = node(T, U, shared).add(*SOME, *(container(f"w{number}", 100, namespace="web") for number in range(8)))
    before = found.state
    after = found.add(container("w", 100, namespace="web")).state
    assert set(changed_keys(after.placements, before.placements)) == {"w"}
    assert set(changed_keys(after.records, before.records)) == {"w"}
    gone = found.remove("w").state
    assert not set(changed_keys(gone.placements, after.placements))
    assert not set(changed_keys(gone.records, after.records))
    exclusive = found.add(container("e", 1000, namespace="u")).state
    changed = set(changed_keys(exclusive.placements, before.placements))
    assert changed == {name for name, each in exclusive.placements.items() if each != before.placements.get(name)}
    assert {f"w{number}" for number in range(8)} < changed, "idle CPUs that they share have gone"
    assert set(changed_keys(exclusive.records, before.records)) == {"e"}
    # What is the same for many is one object, so that it is worked out once.
    assert len({id(exclusive.placements[f"w{number}"]) for number in range(8)}) == 1


def test_grants_are_plain_values(node):
    found = node(T, U, SPARE).add(*SOME)
    before, grants = found.state, found.policy.grants(found.state)
    assert found.synchronize(*SOME, grants=json.loads(json.dumps(grants))).state == before


def test_without_grants_containers_are_placed_in_the_order_of_their_creation(node):
    added = node(T, U, SPARE).add(*SOME).state
    assert node(T, U, SPARE).synchronize(*reversed(SOME), grants={}).state == added


def test_containers_that_have_left_free_their_cpus_and_the_others_stay(node):
    found = node(T, U).add(*SOME)
    before = {name: found.cpus(name) for name in "cd"}
    found.synchronize(*SOME[1:])
    assert {name: found.cpus(name) for name in "cd"} == before
    assert found.balloons()["t[1]"] == 2
    assert "t[0]" not in found.balloons()


def test_a_request_that_has_changed_meanwhile_resizes_the_balloon(node):
    found = node(T).add(SOME[0])
    changed = replace(SOME[0], resources=ContainerResources(cpu_request_milli=1000))
    kept = found.cpus("a")
    assert found.synchronize(changed).balloons()["t[0]"] == 1
    assert found.cpus("a") <= kept


@pytest.mark.parametrize(
    "damage",
    [
        {},
        {"balloon": "t[0]"},
        {"balloon": {"type": "none", "number": 0, "cpus": "1-3", "components": []}},
        {"balloon": {"type": "t", "number": -1, "cpus": "1-3", "components": []}},
        {"balloon": {"type": "t", "number": True, "cpus": "1-3", "components": []}},
        {"balloon": {"type": "t", "number": 0, "cpus": "1-", "components": []}},
        {"balloon": {"type": "t", "number": 0, "cpus": 3, "components": []}},
        {"balloon": {"type": "t", "number": 0, "cpus": "1-3", "components": None}},
        {"balloon": {"type": "t", "number": 0, "cpus": "1-3", "components": [{"type": "t"}]}},
        {"spare": [7, {"type": "spare"}], "memory": []},
    ],
)
def test_a_malformed_grant_is_ignored(node, damage):
    found = node(T, SPARE).add(SOME[0])
    placed = found.state
    assert found.synchronize(SOME[0], grants={"a": damage, "unknown": {"balloon": {}}}).state == placed


def test_a_record_that_contains_itself_is_ignored(node):
    whole = {"name": "w", "namespaces": ["default"], "components": [{"balloonType": "t"}]}
    layout = {"type": "w", "number": 0, "cpus": "1", "components": []}
    layout["components"].append(layout)
    assert (
        node(whole, T | {"namespaces": []}).synchronize(SOME[0], grants={"a": {"balloon": layout}}).zone("a") == "w[0]"
    )


def test_two_grants_of_the_same_cpus_never_share_them(node):
    found = node(T, U).add(SOME[0], SOME[2])
    grants = dict(found.policy.grants(found.state))
    layout = dict(grants["a"]["balloon"])
    grants["c"] = {**grants["c"], "balloon": {**layout, "type": "u"}}
    found.synchronize(SOME[0], SOME[2], grants=grants)
    assert found.cpus("a") == IdSet.parse(layout["cpus"])
    assert found.cpus("a").isdisjoint(found.cpus("c"))


def test_a_grant_of_malformed_memory_gets_memory_of_its_cpus(node):
    found = node(T).add(SOME[0])
    grants = {"a": {**found.policy.grants(found.state)["a"], "memory": "0-"}}
    before = found.memory("a")
    assert found.synchronize(SOME[0], grants=grants).memory("a") == before


@pytest.mark.parametrize("index", [0, 4], ids=["balloon", "balloon of reserved CPUs"])
def test_memory_nodes_are_kept_even_where_others_would_now_be_chosen(node, index):
    found, each = node(T).add(SOME[index]), SOME[index]
    grants = {each.id: {**found.policy.grants(found.state)[each.id], "memory": "0-3"}}
    assert found.synchronize(each, grants=grants).memory(each.id) == "0-3"


def test_memory_nodes_that_are_gone_are_replaced(node):
    found = node(T).add(SOME[0])
    before = found.memory("a")
    grants = {"a": {**found.policy.grants(found.state)["a"], "memory": "9"}}
    assert found.synchronize(SOME[0], grants=grants).memory("a") == before


def test_a_changed_configuration_keeps_balloons_whose_type_still_exists(node):
    found = node(T, U).add(*SOME)
    before = {each: found.cpus(each) for each in "abd"}
    found.configure(T, U | {"cpuClass": "eco"}, SPARE)
    found.synchronize(*SOME)
    assert {each: found.cpus(each) for each in "abd"} == before
    assert found.state.cpu_classes["eco"] >= found.cpus("d")


def test_containers_move_to_a_new_type_that_they_belong_to(node):
    found = node().add(*SOME)
    found.configure(T, U)
    found.synchronize(*SOME)
    assert [found.zone(name).partition("[")[0] for name in "abcds"] == ["t", "t", "u", "u", "reserved"]


def test_containers_of_a_type_that_is_gone_are_placed_anew(node):
    found = node(T, U).add(*SOME)
    found.configure(T)
    found.synchronize(*SOME)
    assert found.zone("c").startswith("default")


def test_a_lower_limit_moves_the_youngest_containers_out(node):
    found = node(T | {"maxCPUs": 8}).add(*SOME[:2])
    assert found.zone("a") == found.zone("b") == "t[0]"
    before = found.cpus("a")
    found.configure(T | {"maxCPUs": 3})
    found.synchronize(*SOME[:2])
    assert (found.zone("a"), found.zone("b")) == ("t[0]", "t[1]")
    assert found.cpus("a") <= before


def test_fewer_available_cpus_are_accepted_and_containers_keep_those_that_remain(node):
    found = node(T | {"maxCPUs": 0}).add(container("a", 6000), container("b", 2000))
    kept = found.cpus("a")
    found.configure(T | {"maxCPUs": 0}, availableResources={"cpu": f"cpuset:0,{kept.min()},{max(kept)},20-31"})
    found.synchronize(container("a", 6000), container("b", 2000))
    assert IdSet([kept.min(), max(kept)]) <= found.cpus("a")
    assert len(found.cpus("a")) == 8


def test_running_containers_share_what_is_left_with_a_warning_until_there_is_room(node):
    running = [container(name, 4000, namespace=name, created_ns=index) for index, name in enumerate("abc")]
    types = [{"name": f"t{name}", "namespaces": [name]} for name in "abc"]
    found = node(*types).add(*running)
    found.configure(*types, availableResources={"cpu": "cpuset:0-8"})
    found.synchronize(*running)
    assert found.result.rejected == {}
    assert found.zone("a") == "ta[0]"
    warned = {warning.container for warning in found.result.warnings if warning.reason == "Overcommitted"}
    assert warned == {"c"}
    before = found.state
    assert found.synchronize(*running).state == before
    found.remove("a")
    assert found.zone("c") == "tc[0]"
    assert len(found.cpus("c")) == 4


def test_components_share_what_is_left_of_their_least_sizes(node):
    part = {"name": "part", "minCPUs": 2}
    whole = {"name": "w", "namespaces": ["default"], "components": [{"balloonType": "part"}] * 2}
    found = node(part, whole).add(container("a", 4000))
    found.configure(part, whole, availableResources={"cpu": "cpuset:0-3"})
    found.synchronize(container("a", 4000))
    components = found.state.balloons[found.state.homes["a"]].components
    assert sorted(len(each.cpus) for each in components) == [1, 2]


def test_a_container_of_a_type_that_gets_no_cpus_is_rejected(node):
    found = node({"name": "no", "namespaces": ["default"], "maxCPUs": -1})
    found.synchronize(container("a", 100), grants={})
    assert list(found.result.rejected) == ["a"]


def test_a_cpu_that_goes_offline_is_replaced(node):
    found = node(T).add(SOME[0])
    gone = found.cpus("a").min()
    cpus = {number: each for number, each in found.machine.cpus.items() if number != gone}
    nodes = {each.id: replace(each, cpus=each.cpus - IdSet([gone])) for each in found.machine.nodes.values()}
    kept = found.cpus("a") - IdSet([gone])
    found.machine = replace(found.machine, cpus=cpus, nodes=nodes, offline=IdSet([gone]))
    found.configure(T)
    found.synchronize(SOME[0])
    assert kept <= found.cpus("a")
    assert len(found.cpus("a")) == 3


def test_balloons_that_had_reserved_cpus_leave_them(node):
    found = node(T).add(SOME[0])
    taken = found.cpus("a")
    found.configure(T, reserved=f"cpuset:{taken}")
    found.synchronize(SOME[0], SOME[4])
    assert found.cpus("s") == taken
    assert found.cpus("a").isdisjoint(taken)


def test_a_large_node_is_synchronized_in_few_steps(node):
    """The number of CPU searches is what costs; it must grow with the containers and not with their square."""
    found = node(T | {"maxCPUs": 16}, U, machine=LARGE.topology())
    running = [
        container(f"c{index:03}", index % 7 * 100, pod=f"p{index // 2}", created_ns=index) for index in range(200)
    ]
    calls = 0
    grow = found.policy._resizer._tree.grow

    def counted(*arguments):
        nonlocal calls
        calls += 1
        return grow(*arguments)

    found.policy._resizer._tree.grow = counted
    found.synchronize(*running, grants={})
    assert 0 < calls <= len(running) + 5
    calls = 0
    found.synchronize(*running)
    assert calls == 0


def test_a_running_container_of_components_without_cpus_shares_another_balloon(node):
    whole = {"name": "w", "namespaces": ["default"], "components": [{"balloonType": "none"}]}
    found = node({"name": "none", "maxCPUs": -1}, whole).synchronize(container("a", 100), grants={})
    assert found.zone("a") == "default[0]"
    assert "w[0]" not in found.balloons()


def test_memory_follows_a_container_that_moves_to_another_kept_balloon(node):
    moved, other = container("a", 1000), container("d", 1000, namespace="u")
    near = [{"preferCloseToDevices": [f"/sys/devices/system/node/node{number}"]} for number in (1, 3)]
    default, grouped = {"name": "default"} | near[0], {"name": "u", "namespaces": ["u"]} | near[1]
    found = node(default, grouped).add(moved, other)
    assert (found.memory("a"), found.memory("d")) == ("1", "3")
    found.configure(default, grouped | {"namespaces": ["*"]})
    found.synchronize(moved, other)
    assert (found.zone("a"), found.memory("a")) == ("u[0]", "3")


def test_two_grants_with_the_same_component_do_not_both_stay(node):
    whole = {"name": "w", "namespaces": ["default"], "maxCPUs": 1, "components": [{"balloonType": "part"}]}
    found = node({"name": "part"}, whole).add(container("a", 1000, created_ns=1), container("b", 1000, created_ns=2))
    grants = dict(found.policy.grants(found.state))
    layout = grants["b"]["balloon"]
    same = [{**layout["components"][0], "number": 0}]
    grants["b"] = {**grants["b"], "balloon": {**layout, "components": same}}
    kept = found.cpus("a")
    found.synchronize(container("a", 1000, created_ns=1), container("b", 1000, created_ns=2), grants=grants)
    names = [key for each in found.state.balloons.values() for key in each.all_keys()]
    assert len(set(names)) == len(names)
    assert found.cpus("a") == kept
