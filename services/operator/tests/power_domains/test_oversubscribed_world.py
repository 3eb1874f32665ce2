"""Breakers of an oversubscribed tree, whatever fails: none trips, and no overload lasts longer than is promised.

Each rule that is removed lets one trip, or lets an overload last.
"""

from fractions import Fraction

import pytest
from services.operator.tests.power_domains.oversubscribed_world import RACKS, BreakerError, OversubscribedWorld

from joulie_core.budget import breaker_states, fallback, oversubscription
from joulie_core.budget.breaker_states import BreakerDamage
from joulie_core.budget.samples import SampleTimes


def raised(**options):
    return OversubscribedWorld(**{"cooling_s": 30.0} | options).begin().wait_for_raise()


def test_limits_add_up_to_more_than_the_feed_supplies_while_little_is_drawn():
    world = raised()
    world.run(120.0)
    assert world.raised_s > 100.0
    assert world.longest_s == 0.0


def test_all_servers_that_draw_what_they_may_do_not_trip_a_breaker():
    world = raised()
    world.share(1.0)
    world.run(60.0)
    assert 0.0 < world.longest_s <= 20.0
    assert not world.leader.raised


def operator_is_lost(world):
    world.leader.away = True


def api_is_lost(world):
    world.away = True


def telemetry_is_lost(world):
    for server in world.servers.values():
        server.blind = True


def telemetry_of_one_is_lost(world):
    world.servers["n0"].blind = True


LOSSES = [operator_is_lost, api_is_lost, telemetry_is_lost, telemetry_of_one_is_lost]


@pytest.mark.parametrize("lose", LOSSES)
@pytest.mark.parametrize("early_s", [0.0, 3.0, 20.0])
def test_an_overload_ends_whatever_is_lost_before_it(lose, early_s):
    world = raised(seed=int(early_s))
    lose(world)
    world.run(early_s)
    world.share(1.0)
    world.run(200.0)
    assert world.longest_s <= 30.0


@pytest.mark.parametrize("early_s", [0.0, 3.0, 20.0, 100.0])
def test_others_make_room_for_a_node_whose_agent_has_ended_while_its_limit_stays(early_s):
    world = raised(seed=int(early_s))
    world.servers["n0"].dead = True
    world.run(early_s)
    world.share(1.0)
    world.run(200.0)
    assert world.servers["n0"].holds_w > 260
    assert world.longest_s <= 30.0


@pytest.mark.parametrize("lose", LOSSES)
def test_servers_with_floors_keep_them_whatever_is_lost_and_no_overload_lasts(lose):
    world = raised(floor_w=250)
    lose(world)
    world.share(1.0)
    world.run(200.0)
    assert 0.0 < world.longest_s <= 30.0
    assert min(server.holds_w for name, server in world.servers.items() if name not in RACKS["a"]) < 250
    assert world.least_w >= 250


class Faults:
    """Random faults and loads; loads last for two samples at least."""

    def __init__(self, world):
        self.world = world
        self.random = world.random
        self.next_s = 0.0
        self.back_s = 0.0

    def __call__(self):
        world, chance = self.world, self.random
        if world.now_s >= self.back_s:
            world.away = world.leader.away = False
            for server in world.servers.values():
                server.blind = False
        if world.now_s < self.next_s:
            return
        self.next_s = world.now_s + chance.uniform(8.0, 40.0)
        load = chance.choice((0.4, 0.6, 0.6, 0.75, 0.85, 1.0))
        for server in world.servers.values():
            server.share = min(1.0, load * chance.uniform(0.9, 1.1))
        draw = chance.random()
        self.back_s = world.now_s + chance.uniform(2.0, 60.0)
        if draw < 0.10:
            world.away = True
        elif draw < 0.20:
            world.leader.away = True
        elif draw < 0.35:
            for name in chance.sample(sorted(world.servers), k=chance.choice((1, 2, 6))):
                world.servers[name].blind = True
        elif draw < 0.38:
            world.elect()


def walk(seed, seconds, **options):
    world = OversubscribedWorld(seed, **options).begin()
    world.run(seconds, Faults(world))
    return world


@pytest.mark.parametrize("seed", range(4))
def test_no_breaker_trips_in_any_order_of_faults(seed):
    world = walk(seed, 3_000.0)
    assert world.raised_s > 0.0


def found(seeds=range(8), **options):
    for seed in seeds:
        try:
            world = raised(seed=seed, **options)
            for lose in (operator_is_lost, telemetry_of_one_is_lost):
                lose(world)
                world.run(20.0)
                world.share(1.0)
                world.run(100.0)
                world = raised(seed=seed, **options)
        except BreakerError:
            return True
    return False


def test_an_agent_that_holds_its_limit_for_ever_lets_an_overload_last():
    assert found(hold=lambda _seconds: 10_000.0)


def test_nodes_that_fall_back_to_their_limits_let_an_overload_last(monkeypatch):
    monkeypatch.setattr(fallback, "_share", lambda _domain, _lowest: Fraction(1))
    assert found()


def test_samples_that_stay_fresh_let_an_overload_last(monkeypatch):
    monkeypatch.setattr(SampleTimes, "fresh_s", 10_000)
    world = raised()
    world.servers["n0"].blind = True
    world.run(20.0)
    world.share(1.0, ["n0"])
    with pytest.raises(BreakerError):
        overload_unseen(world)


def overload_unseen(world):
    """Raise what all other servers draw step by step, to below what would be withdrawn."""
    for percent in range(66, 101, 2):
        world.share(percent / 100, [name for name in world.servers if name != "n0"])
        world.run(34.0)


def test_loads_that_rise_beside_a_node_without_samples_do_not_last():
    world = raised()
    world.servers["n0"].blind = True
    world.run(20.0)
    world.share(1.0, ["n0"])
    overload_unseen(world)
    assert world.longest_s <= 30.0


def overload_again_and_again(world, *, elects):
    """Let all servers draw what they may, shortly after each other, under one leader or always another one."""
    for _ in range(40):
        world.share(0.5)
        world.run(80.0)
        world.share(1.0)
        world.leader.away = elects
        world.run(20.0)
        if elects:
            world.elect()


@pytest.mark.parametrize("elects", [False, True])
def test_a_breaker_that_does_not_cool_is_overloaded_no_more_once_it_is_warm(elects):
    world = raised_with_breaker_that_keeps_warm()
    overload_again_and_again(world, elects=elects)
    assert 0.0 < max(world.damage.values()) < 0.5


def raised_with_breaker_that_keeps_warm():
    world = OversubscribedWorld(cooling_s=100_000.0).begin()
    return world.cool().wait_for_raise()


def test_a_leader_that_takes_the_breaker_for_cold_trips_it(monkeypatch):
    world = raised_with_breaker_that_keeps_warm()
    state = breaker_states.BreakerState
    cold = BreakerDamage(0.0, 0.0)
    monkeypatch.setattr(breaker_states, "BreakerState", lambda limit, rating: state(limit, rating, cold))
    with pytest.raises(BreakerError, match="trips"):
        overload_again_and_again(world, elects=True)


def test_limits_that_are_raised_while_the_breaker_is_warm_trip_it(monkeypatch):
    world = raised_with_breaker_that_keeps_warm()
    monkeypatch.setattr(oversubscription, "WARM", 10.0)
    with pytest.raises(BreakerError, match="trips"):
        overload_again_and_again(world, elects=False)
