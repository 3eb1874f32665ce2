"""Nodes of a demo that sleep: the scale of times, the policy, the simulator's settings, and servers' watts."""

import pytest

from joulie_core.kinds import NodeSleepPolicySpec
from joulie_core.kinds.node_sleep_policy import MinAwakeSpec, SpareOf
from joulie_core.sleep import SleepSettings
from joulie_devcluster.control_plane.nodes import default_node_classes, scale
from joulie_sim.demo.options import parse_options
from joulie_sim.demo.settings import MIN_AWAKE, demo_arm, operator_env
from joulie_sim.demo.sleeping.servers import SleepingServers
from joulie_sim.demo.sleeping.settings import SERVERS, simulated_sleep, sleep_policy
from joulie_sim.demo.sleeping.wall_power import WallPower
from joulie_sim.demo.time_scale import TimeScale

MINUTES = TimeScale(60.0)


def test_a_scale_converts_both_ways_and_no_whole_second_is_less_than_one():
    assert (MINUTES.clock_s(600.0), MINUTES.simulated_s(10.0)) == (10.0, 600.0)
    assert (MINUTES.whole_clock_s(600), MINUTES.whole_clock_s(20)) == (10, 1)


def test_the_policy_has_the_defaults_by_the_scale_and_deadlines_by_the_clock():
    spec = NodeSleepPolicySpec.model_validate(sleep_policy(TimeScale(144.0), MinAwakeSpec())["spec"])
    default = NodeSleepPolicySpec(node_selector={"a": "b"})
    assert (spec.mode, spec.min_awake, spec.max_asleep_percent) == ("Act", default.min_awake, 50)
    assert (spec.idle_seconds, spec.min_awake_seconds, spec.back_off_seconds) == (4, 6, 4)
    assert spec.boot_timeout_seconds == default.boot_timeout_seconds
    assert spec.off_timeout_seconds == default.off_timeout_seconds


def test_no_time_of_the_policy_is_shorter_than_a_second():
    spec = sleep_policy(TimeScale(4320.0), MinAwakeSpec(spare=0))["spec"]
    assert {spec["idleSeconds"], spec["minAwakeSeconds"], spec["backOffSeconds"]} == {1}


def test_the_simulator_has_the_limits_of_the_policy_and_its_times_without_the_scale():
    spec = NodeSleepPolicySpec.model_validate(sleep_policy(MINUTES, MIN_AWAKE)["spec"])
    decision = simulated_sleep(MINUTES, MIN_AWAKE).decision
    assert (decision.min_awake, decision.max_asleep_percent) == (spec.min_awake, spec.max_asleep_percent)
    assert spec.min_awake.spare_of is SpareOf.RESOURCES
    for found, simulated in (
        (spec.idle_seconds, decision.idle_seconds),
        (spec.min_awake_seconds, decision.min_awake_seconds),
        (spec.back_off_seconds, decision.back_off_seconds),
    ):
        assert MINUTES.simulated_s(found) == simulated


def test_the_arm_of_the_demo_sleeps_as_its_services_do_and_others_do_not():
    sleeping = demo_arm(parse_options([]))
    assert sleeping.sleep.decision == SleepSettings(min_awake=MIN_AWAKE)
    assert sleeping.joulie.plan_debounce_s == 30.0
    assert operator_env(parse_options([]))["SLEEP_ENABLED"] == "true"
    for argv in (["--preset", "score"], ["--policy", "queue_aware_v1"]):
        options = parse_options(argv)
        assert not hasattr(demo_arm(options), "sleep")
        assert "SLEEP_ENABLED" not in operator_env(options)


def test_a_server_draws_more_under_load_and_with_its_gpus_than_idle():
    power = WallPower(scale(default_node_classes(), 40))
    assert len(power.names) == 40
    idle = power.idle_watts("epyc-9654-0")
    assert 50.0 < idle < power.watts("epyc-9654-0", cpu_utilization=1.0, gpu_watts=0.0)
    assert power.idle_watts("h100-0") > power.watts("h100-0", cpu_utilization=0.0, gpu_watts=0.0)


@pytest.mark.parametrize(("node", "boot_s"), [("epyc-9654-0", SERVERS.boot_s), ("h100-0", SERVERS.gpu_boot_s)])
def test_a_server_goes_off_and_boots_by_the_scale(node, boot_s):
    now_s = 0.0
    servers = SleepingServers(WallPower(scale(default_node_classes(), 40)), scale=MINUTES, clock=lambda: now_s)
    server = servers.servers[node]
    server.reset("GracefulShutdown")
    now_s = MINUTES.clock_s(SERVERS.off_s)
    assert (server.power_state, server.watts, servers.power_offs) == ("Off", SERVERS.off_watts, 1)
    server.reset("On")
    now_s += MINUTES.clock_s(boot_s) - 0.01
    assert server.power_state == "PoweringOn"
    now_s += 0.02
    assert (server.power_state, server.watts) == ("On", servers.wall_power.idle_watts(node))
