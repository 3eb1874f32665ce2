"""The controller: a node goes to sleep and wakes. What fails is in test_faults.py."""

import pytest

NODES = ("n1", "n2", "n3", "n4")


def some_nodes(world, names=NODES, **node):
    for name in names:
        world.add(name, **node)


async def test_idle_nodes_go_to_sleep_down_to_the_minimum_and_half_of_the_zone(world):
    some_nodes(world)
    world.policy()
    await world.until(lambda: len(world.in_state("asleep")) == 2)
    await world.step(10)
    asleep = world.in_state("asleep")
    assert len(asleep) == 2
    for name in asleep:
        assert world.tainted(name)
        assert world.desired(name) == "Off"
        assert not world.servers[name].on
    assert world.status()["nodes"] == {
        "selected": 4,
        "awake": 2,
        "cordoned": 0,
        "draining": 0,
        "poweringOff": 0,
        "asleep": 2,
        "waking": 0,
        "quarantined": 0,
    }
    assert world.status()["savedWatts"] > 0


async def test_a_pending_pod_wakes_the_node_that_it_fits_and_no_other(world):
    some_nodes(world)
    world.policy()
    await world.until(lambda: len(world.in_state("asleep")) == 2)
    for name in world.in_state("awake"):
        world.pod(f"fills-{name}", name, cpu=60)
    world.pod("waits", cpu=30, unschedulable=True)
    await world.until(lambda: world.in_state("waking"))
    (woken,) = world.in_state("waking")
    await world.until(lambda: world.state(woken) == "awake")
    assert world.servers[woken].on
    assert not world.tainted(woken)
    assert world.desired(woken) == "Unmanaged"
    assert len(world.in_state("asleep")) == 1


@pytest.mark.parametrize("mode", ["Observe", "Recommend"])
async def test_nothing_is_written_but_the_status_in_other_modes(world, mode):
    some_nodes(world)
    world.policy(mode=mode)
    await world.step(30)
    assert {each.kind for each in world.api.requests.writes(manager="joulie-operator")} == {"NodeSleepPolicy"}
    assert ("recommendation" in world.status()) is (mode == "Recommend")


async def test_a_recommendation_says_what_would_sleep_also_without_bmcs(world):
    some_nodes(world, ("n1", "n2"), bmc=False)
    some_nodes(world, ("n3", "n4"), proven=False)
    world.policy(mode="Recommend")
    await world.step(30)
    found = world.status()["recommendation"]
    assert (found["asleep"], len(found["nodes"])) == (2, 2)
    assert found["watts"] > 0
    assert world.status()["refusals"] == [
        {"reason": "no_bmc", "nodes": 2},
        {"reason": "wake_unproven", "nodes": 2},
    ]


async def test_a_node_whose_wake_path_is_not_proved_never_sleeps(world):
    some_nodes(world, proven=False)
    world.policy()
    await world.step(30)
    assert world.in_state("awake") == list(NODES)


async def test_pods_are_evicted_before_the_power_is_off(world):
    some_nodes(world)
    for name in NODES:
        world.pod(f"small-{name}", name)
        world.pod(f"daemon-{name}", name, owner="DaemonSet")
    world.policy(consolidation={"mode": "Act", "belowPercent": 10})
    await world.until(lambda: len(world.in_state("asleep")) == 2)
    for name in world.in_state("asleep"):
        assert world.servers[name].cut_under == []
        assert [pod["metadata"]["name"] for pod in world.api.objects("Pod") if pod["spec"].get("nodeName") == name] == [
            f"daemon-{name}"
        ]


@pytest.mark.parametrize("owner", ["Job", None])
async def test_pods_that_nothing_replaces_keep_their_node_awake(world, owner):
    some_nodes(world)
    for name in NODES:
        world.pod(f"work-{name}", name, owner=owner)
    world.policy()
    await world.step(20)
    assert world.in_state("awake") == list(NODES)


async def test_nodes_that_are_not_managed_count_in_their_zone(world):
    some_nodes(world)
    world.add("foreign", labels={"pool": "other"})
    world.add("foreign-2", labels={"pool": "other"})
    for name in ("foreign", "foreign-2"):
        del world.servers[name]
        world.api.patch("Node", name, {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    world.policy()
    await world.step(30)
    assert len(world.in_state("asleep")) == 1, "half of six, less two"


@pytest.mark.parametrize("change", ["mode", "deleted", "invalid"])
async def test_every_node_wakes_when_a_policy_acts_no_more(world, change):
    some_nodes(world)
    world.policy()
    await world.until(lambda: len(world.in_state("asleep")) == 2)
    match change:
        case "mode":
            world.policy(mode="Observe")
        case "deleted":
            world.api.remove("NodeSleepPolicy", "all")
        case "invalid":
            window = {"days": ["Mon"], "start": "07:00", "end": "19:00", "timeZone": "Europe/Roma", "minAwake": 1}
            world.policy(schedules=[window])
    await world.until(lambda: world.in_state("awake") == list(NODES))
    assert all(server.on for server in world.servers.values())
    await world.step()
    assert {world.desired(name) for name in NODES} == {"Unmanaged"}
    if change == "invalid":
        accepted = next(each for each in world.status()["conditions"] if each["type"] == "Accepted")
        assert accepted["message"] == (
            "schedules[0].timeZone: 'Europe/Roma' is not in the time zone database; write a name such as Europe/Rome"
        )


async def test_a_person_wakes_a_node_and_keeps_it_awake_for_a_time(world):
    some_nodes(world)
    world.policy()
    await world.until(lambda: len(world.in_state("asleep")) == 2)
    (name, _) = world.in_state("asleep")
    until = {"metadata": {"annotations": {"joulie.io/awake-until": "2100-01-01T00:00:00Z"}}}
    world.api.patch("Node", name, until)
    await world.until(lambda: world.state(name) == "awake")
    await world.step(20)
    assert world.state(name) == "awake"


@pytest.mark.parametrize("value", ["2100-01-01", "tomorrow", ""])
async def test_a_time_that_cannot_be_read_keeps_a_node_awake(world, value):
    some_nodes(world)
    world.policy()
    await world.until(lambda: len(world.in_state("asleep")) == 2)
    (name, _) = world.in_state("asleep")
    world.api.patch("Node", name, {"metadata": {"annotations": {"joulie.io/awake-until": value}}})
    await world.until(lambda: world.state(name) == "awake")
    await world.step(20)
    assert world.state(name) == "awake"
    world.api.patch("Node", name, {"metadata": {"annotations": {"joulie.io/awake-until": None}}})
    await world.until(lambda: len(world.in_state("asleep")) == 2)


async def test_a_persons_desired_power_wakes_a_node_and_stays(world):
    some_nodes(world)
    world.policy()
    await world.until(lambda: len(world.in_state("asleep")) == 2)
    (name, _) = world.in_state("asleep")
    world.api.patch("NodeBMC", name, {"spec": {"desiredPower": "On"}})
    await world.until(lambda: world.state(name) == "awake")
    assert world.servers[name].on


async def test_the_windows_of_a_schedule_keep_nodes_awake(world):
    some_nodes(world)
    days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    world.policy(schedules=[{"days": days, "start": "00:00", "end": "24:00", "minAwake": 3}])
    await world.step(30)
    assert len(world.in_state("asleep")) == 1


async def test_a_node_belongs_to_the_first_policy_by_name(world):
    some_nodes(world)
    world.policy("a", mode="Observe")
    world.policy("b", mode="Act")
    await world.step(20)
    assert world.in_state("awake") == list(NODES)
    overlapping = next(each for each in world.status("b")["conditions"] if each["type"] == "Overlapping")
    assert (overlapping["status"], overlapping["message"]) == (
        "True",
        (
            "of the nodes that spec.nodeSelector matches belong 4 to a, which come first by name; change one of the "
            "selectors so that they do not overlap"
        ),
    )


async def test_a_policy_that_selects_no_managed_node_says_so(world):
    some_nodes(world)
    world.policy(nodeSelector={"pool": "sleepi", "rack": "r1"})
    await world.step(2)
    accepted = next(each for each in world.status()["conditions"] if each["type"] == "Accepted")
    assert (accepted["status"], accepted["reason"]) == ("True", "NoNodes")
    assert accepted["message"].startswith("spec.nodeSelector pool=sleepi,rack=r1 matches no managed node; change it")


async def test_taints_of_others_stay(world):
    some_nodes(world)
    taint = {"key": "team", "value": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
    for name in NODES:
        world.api.patch("Node", name, {"spec": {"taints": [taint]}})
    world.policy()
    await world.until(lambda: len(world.in_state("asleep")) == 2)
    (name, _) = world.in_state("asleep")
    own = {"key": "joulie.io/asleep", "effect": "NoSchedule"}
    assert world.api.get("Node", name)["spec"]["taints"] == [taint, own]


async def test_the_time_of_a_wake_is_measured(world):
    await test_a_pending_pod_wakes_the_node_that_it_fits_and_no_other(world)
    count = world.registry.get_sample_value("joulie_operator_sleep_wake_duration_seconds_count")
    total = world.registry.get_sample_value("joulie_operator_sleep_wake_duration_seconds_sum")
    assert (count, total) == (1, 20)


def test_failures_are_counted_from_zero_on(world):
    """Prometheus sees no increase in a series that begins with 1."""
    name = "joulie_operator_sleep_transitions_total"
    for before, after, reason in (
        ("Draining", "Awake", "drain_timeout"),
        ("Waking", "PoweringOff", "boot_timeout"),
        ("Waking", "Quarantined", "boot_timeout"),
    ):
        transition = {"from_state": before, "to_state": after, "reason": reason}
        assert world.registry.get_sample_value(name, transition) == 0
