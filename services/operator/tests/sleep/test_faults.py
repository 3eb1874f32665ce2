"""Faults: the controller killed in every state, boots and power-offs that never come, BMCs that do not answer, budgets,
a zone that fails, a roll-out that waits.
"""

import pytest

from joulie_testing.api import Respond

NODES = ("n1", "n2", "n3", "n4")
#: Why the service cannot reach a BMC; "": the service does not run either.
SILENCES = ("Unreachable", "TimedOut", "Busy", "")


async def half_asleep(world, **spec):
    """Put four nodes; return the two that are asleep."""
    for name in NODES:
        world.add(name)
    world.policy(**spec)
    await world.until(lambda: len(world.in_state("asleep")) == 2)
    return world.in_state("asleep")


def need_one_more(world):
    """Let a pod wait that has room on any node that is asleep, and on no other."""
    for name in world.in_state("awake"):
        world.pod(f"fills-{name}", name, cpu=60)
    world.pod("waits", cpu=30, unschedulable=True)


async def wake_one(world):
    """Need one more node; return it and the other ones that are asleep."""
    need_one_more(world)
    await world.until(lambda: world.in_state("waking"))
    (name,) = world.in_state("waking")
    return name, world.in_state("asleep")


# --- the controller is killed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["awake", "cordoned", "draining", "powering-off", "asleep"])
async def test_a_controller_that_is_killed_on_the_way_to_sleep_goes_on_from_what_is_stored(world, state):
    for name in NODES:
        world.add(name)
    world.policy()
    await world.step()
    await world.until(lambda: world.in_state(state))
    name = world.in_state(state)[0]
    world.restart()
    await world.until(lambda: world.state(name) == "asleep" and not world.servers[name].on)
    assert not any(server.cut_under for server in world.servers.values())
    assert [desired for _, desired in world.servers[name].requests] == ["Off"]


async def test_a_controller_that_is_killed_while_a_node_wakes_goes_on_from_what_is_stored(world):
    await half_asleep(world)
    name, _ = await wake_one(world)
    world.restart()
    await world.until(lambda: world.state(name) == "awake" and world.servers[name].on)
    assert len(world.in_state("asleep")) == 1
    assert [desired for _, desired in world.servers[name].requests] == ["Off", "On", "Unmanaged"]


async def test_a_controller_that_is_killed_with_a_node_in_quarantine_leaves_it_there_until_a_person_clears_it(world):
    await half_asleep(world)
    name, _ = await wake_one(world)
    world.servers[name].never_boots = True
    await world.until(lambda: world.state(name) == "quarantined" and world.desired(name) == "Unmanaged")
    requests = list(world.servers[name].requests)
    world.restart()
    await world.step(20)
    assert (world.state(name), world.tainted(name)) == ("quarantined", False)
    assert world.servers[name].requests == requests
    world.servers[name].never_boots = False
    world.restart()
    world.api.patch("Node", name, {"metadata": {"labels": {"joulie.io/sleep-state": None}}})
    await world.until(lambda: world.state(name) == "awake" and world.servers[name].on)


async def test_a_controller_that_is_killed_does_not_shorten_a_back_off(world):
    for name in NODES:
        world.add(name)
        world.pod(f"guarded-{name}", name)
    world.policy(consolidation={"mode": "Act", "belowPercent": 10}, backOffSeconds=300, rates={"emptying": 4})
    world.api.faults.add(Respond(429), verb="evict", path="/eviction", times=None)
    await world.until(lambda: world.in_state("draining"))
    await world.until(lambda: len(world.in_state("awake")) == 4)
    world.restart()
    began = world.now
    await world.until(lambda: world.in_state("cordoned"))
    assert world.now - began >= 200


@pytest.mark.parametrize("skip", range(0, 12, 2))
async def test_a_controller_that_is_cut_off_from_the_api_server_after_any_write_goes_on_later(world, skip):
    for name in NODES:
        world.add(name)
    world.policy()
    for verb in ("patch", "apply"):
        world.api.faults.add(Respond(503), verb=verb, path="/", times=4, skip=skip)
    await world.step(8)
    world.restart()
    await world.until(lambda: len(world.in_state("asleep")) == 2)


# --- a boot that never comes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["never_boots", "hangs"])
async def test_a_boot_that_never_comes_ends_in_quarantine_and_another_node_is_woken(world, fault):
    await half_asleep(world)
    dead, (other,) = await wake_one(world)
    setattr(world.servers[dead], fault, True)
    await world.until(lambda: world.state(other) == "awake")
    await world.until(lambda: world.state(dead) == "quarantined")
    assert world.status()["quarantined"] == [dead]
    assert not world.tainted(dead)
    healthy = next(each for each in world.status()["conditions"] if each["type"] == "Healthy")
    assert (healthy["status"], healthy["reason"]) == ("False", "Quarantined")
    assert [each.reason for each in world.events if each.subject.name == dead][-1] == "NodeQuarantined"


@pytest.mark.parametrize("fault", ["never_boots", "hangs"])
async def test_a_boot_that_never_comes_is_tried_again_after_a_back_off_that_doubles(world, fault):
    await half_asleep(world, bootAttempts=3, backOffSeconds=50)
    dead, _ = await wake_one(world)
    setattr(world.servers[dead], fault, True)
    await world.until(lambda: world.state(dead) == "quarantined", passes=100)
    await world.step()
    requests = world.servers[dead].requests
    assert [desired for _, desired in requests] == ["Off", "On", "Off", "On", "Off", "On", "Unmanaged"]
    first, second, third = world.servers[dead].requested("On")
    # The time that a boot is given, then the back-off; a pass takes ten seconds.
    assert 60 + 50 <= second - first <= 60 + 50 + 20
    assert 60 + 100 <= third - second <= 60 + 100 + 20


async def test_a_boot_that_comes_at_the_second_attempt_is_no_quarantine(world):
    await half_asleep(world, bootAttempts=3)
    name, _ = await wake_one(world)
    server = world.servers[name]
    server.hangs = True
    await world.until(lambda: server.on)
    await world.until(lambda: not server.on)
    server.hangs = False
    world.api.patch("Node", name, {"metadata": {"annotations": {"joulie.io/awake-until": "2100-01-01T00:00:00Z"}}})
    await world.until(lambda: world.state(name) == "awake" and server.on)
    assert [desired for _, desired in server.requests] == ["Off", "On", "Off", "On", "Unmanaged"]


# --- a power-off that never comes -------------------------------------------------------------------------------------


async def test_a_server_that_ignores_the_power_off_is_switched_on_and_awake_again(world):
    for name in NODES:
        world.add(name)
        world.servers[name].ignores_off = True
    world.policy(backOffSeconds=1000)
    await world.until(lambda: world.in_state("powering-off"))
    names = world.in_state("powering-off")
    await world.until(lambda: all(world.state(name) == "awake" for name in names))
    for name in names:
        assert not world.tainted(name)
        assert world.desired(name) == "Unmanaged"
    # The other two are tried meanwhile.
    await world.step(45)
    assert world.in_state("awake") == list(NODES), "not again before the back-off is over"


async def test_a_soft_off_that_is_ignored_and_forced_in_time_ends_in_sleep(world):
    for name in NODES:
        world.add(name)
        world.servers[name].takes = 4
    world.policy()
    await world.until(lambda: len(world.in_state("asleep")) == 2)
    assert all(server.requested("On") == [] for server in world.servers.values())


async def test_a_server_that_goes_off_after_it_was_given_up_is_powered_on(world):
    for name in NODES:
        world.add(name)
        world.servers[name].ignores_off = True
    world.policy(backOffSeconds=1000)
    await world.until(lambda: world.in_state("waking"))
    (name, *_) = world.in_state("waking")
    world.cut(name)
    await world.until(lambda: world.state(name) == "awake")
    assert world.servers[name].on


# --- a BMC that does not answer ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", SILENCES)
async def test_a_bmc_that_does_not_answer_keeps_its_node_awake(world, reason):
    for name in NODES:
        world.add(name)
        world.hide(name, reason)
    world.policy(idleSeconds=300)
    await world.step(50)
    assert world.in_state("awake") == list(NODES)
    assert world.status()["refusals"] == [{"reason": "bmc_unknown", "nodes": 4}]


@pytest.mark.parametrize("state", ["cordoned", "draining"])
@pytest.mark.parametrize("reason", SILENCES[:3])
async def test_a_bmc_that_stops_answering_before_the_power_off_brings_its_node_back(world, reason, state):
    for name in NODES:
        world.add(name)
    world.policy()
    await world.until(lambda: world.in_state(state))
    (name, *_) = world.in_state(state)
    world.hide(name, reason)
    await world.until(lambda: world.state(name) == "awake")
    assert not world.tainted(name)
    assert world.servers[name].requests == []


@pytest.mark.parametrize("reason", SILENCES)
async def test_a_power_off_is_not_believed_while_the_bmc_does_not_answer(world, reason):
    for name in NODES:
        world.add(name)
    world.policy()
    await world.until(lambda: any(each.requested("Off") for each in world.servers.values()))
    name = next(name for name, each in world.servers.items() if each.requested("Off"))
    world.hide(name, reason)
    await world.until(lambda: world.state(name) == "waking")
    world.show(name)
    await world.until(lambda: world.state(name) == "awake" and world.servers[name].on)


@pytest.mark.parametrize("reason", SILENCES)
async def test_a_sleeping_node_whose_bmc_does_not_answer_stays_asleep_and_another_one_is_woken(world, reason):
    names = await half_asleep(world)
    silent, other = names
    world.hide(silent, reason)
    await world.step(20)
    assert world.in_state("asleep") == names
    woken, _ = await wake_one(world)
    assert woken == other
    await world.until(lambda: world.state(other) == "awake")
    assert world.state(silent) == "asleep"


async def test_a_node_that_is_needed_is_woken_as_soon_as_its_bmc_answers_again(world):
    names = await half_asleep(world, bootAttempts=20)
    for name in names:
        world.hide(name)
    need_one_more(world)
    await world.step(30)
    assert not any(world.servers[name].on for name in names)
    for name in names:
        world.show(name)
    await world.until(lambda: any(world.state(name) == "awake" for name in names))


@pytest.mark.parametrize("reason", SILENCES)
async def test_a_node_is_not_awake_before_its_bmc_says_so(world, reason):
    await half_asleep(world, bootTimeoutSeconds=1000)
    name, _ = await wake_one(world)
    world.hide(name, reason)
    world.servers[name].on = True
    world.ready(name, "True")
    await world.step(20)
    assert (world.state(name), world.tainted(name)) == ("waking", True)
    world.show(name)
    await world.until(lambda: world.state(name) == "awake")


# --- pods -------------------------------------------------------------------------------------------------------------


async def test_a_drain_that_a_budget_blocks_is_undone(world):
    for name in NODES:
        world.add(name)
        world.pod(f"guarded-{name}", name)
    world.policy(consolidation={"mode": "Act", "belowPercent": 10})
    world.api.faults.add(Respond(429), verb="evict", path="/eviction", times=None)
    await world.until(lambda: world.in_state("draining"))
    names = world.in_state("draining")
    await world.until(lambda: all(world.state(name) == "awake" for name in names))
    assert not any(world.tainted(name) for name in names)
    assert len(world.api.objects("Pod")) == 4
    assert all(server.on for server in world.servers.values())


async def test_a_pod_that_comes_at_the_last_moment_keeps_the_power_on(world):
    for name in NODES:
        world.add(name)
    world.policy()
    await world.until(lambda: world.in_state("powering-off"))
    (name, *_) = world.in_state("powering-off")
    assert world.desired(name) == "Unmanaged", "a pass lies between the record and the request"
    world.pod("late", name, cpu=1)
    await world.until(lambda: world.state(name) == "awake")
    assert world.servers[name].on
    assert not [each for each in world.api.requests.writes(kind="NodeBMC", name=name) if b'"Off"' in each.body]


# --- a zone that fails ------------------------------------------------------------------------------------------------


async def test_no_node_of_a_zone_goes_to_sleep_where_55_percent_are_not_ready(world):
    names = [f"n{number}" for number in range(20)]
    for name in names:
        world.add(name)
    for name in names[:11]:
        world.ready(name, "False")
    world.policy()
    await world.step(20)
    assert set(world.states().values()) == {"awake"}


async def test_a_zone_of_which_55_percent_fail_wakes_what_it_lacks_and_no_more(world):
    names = [f"n{number:02}" for number in range(20)]
    for name in names:
        world.add(name)
    world.policy(minAwake={"count": 4, "spare": 0}, rates={"waking": 10})
    await world.until(lambda: len(world.in_state("asleep")) == 10)
    asleep = world.in_state("asleep")
    # With those that sleep, 18 of 20 are not ready; two of the four that stay awake are left.
    for name in world.in_state("awake")[:8]:
        world.ready(name, "Unknown")
    most_waking = 0
    for _ in range(60):
        await world.step()
        most_waking = max(most_waking, len(world.in_state("waking")))
    assert most_waking == 2
    assert len(world.in_state("asleep")) == 8
    assert set(world.in_state("asleep")) < set(asleep), "and none more goes to sleep"


# --- a roll-out -------------------------------------------------------------------------------------------------------


async def test_a_daemon_sets_roll_out_wakes_the_nodes_that_it_waits_for(world):
    for name in NODES:
        world.pod(f"agent-{name}", name, owner="DaemonSet")
    name, other = await half_asleep(world)
    daemon_set = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": f"agent-{name}-owner", "generation": 2},
        "spec": {"updateStrategy": {"type": "RollingUpdate"}},
        "status": {"observedGeneration": 2, "desiredNumberScheduled": 4, "updatedNumberScheduled": 2},
    }
    world.api.put(daemon_set)
    await world.until(lambda: world.state(name) == "awake")
    assert world.state(other) == "asleep", "of another DaemonSet here"
    await world.step(10)
    assert world.state(name) == "awake", "as long as it rolls out"
    world.api.put(daemon_set | {"status": daemon_set["status"] | {"updatedNumberScheduled": 4}})
    await world.until(lambda: len(world.in_state("asleep")) == 2)


async def test_a_pod_that_a_daemon_set_has_made_for_a_sleeping_node_wakes_it(world):
    """As after the old pod is gone, or of a new DaemonSet: its status has the pod as updated, and is complete."""
    name, other = await half_asleep(world)
    world.pod("new", owner="DaemonSet", unschedulable=True)
    only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [only]}}
    world.api.patch("Pod", "new", {"spec": {"affinity": {"nodeAffinity": required}}}, namespace="default")
    await world.until(lambda: world.state(name) == "awake")
    assert world.state(other) == "asleep"
    await world.step(10)
    assert world.state(name) == "awake", "as long as the pod waits"
