"""The series of power domains: what is not known has no sample, and their number has a bound."""

from joulie_core.kinds import PowerDomainSpec, PowerDomainStatus
from joulie_core.kinds.raise_state import RaiseState
from joulie_operator.power_domains.metrics import MOST_SERIES, DomainState, families

_SPEC = PowerDomainSpec.model_validate({"limitWatts": 1_000, "reserveWatts": 150, "onLostControl": "Release"})
_PREFIX = "joulie_operator_power_domain"


def state(spec=_SPEC, accepted="True", **status):
    conditions = [{"type": "Accepted", "status": accepted}, {"type": "Held", "status": "True"}]
    return DomainState(spec, PowerDomainStatus.model_validate({"conditions": conditions, **status}))


def samples(states):
    return {
        (sample.name.removeprefix(_PREFIX), *sample.labels.values()): sample.value
        for family in families(states)
        for sample in family.samples
    }


def test_every_figure_that_is_known_has_its_series():
    drawn = {"measuredWatts": 500, "modelledWatts": 0, "unknownNodes": 1}
    found = samples(
        {
            "a": state(
                allocatedWatts=900,
                inForceWatts=1_500,
                guaranteedWatts=300,
                shortfallWatts=20,
                headroomWatts=0,
                drawn=drawn,
                nodes=5,
                unknownNodes=2,
                loweredNodes=3,
                mode="Enforce",
                largestInForceWatts=1_400,
                unconfirmedNodes=4,
                refusedNodes=0,
                silentNodes=1,
            )
        }
    )
    assert found == {
        ("s", "true"): 1,
        ("s", "false"): 0,
        ("_limit_watts", "a"): 1_000,
        ("_reserve_watts", "a"): 150,
        ("_allocated_watts", "a"): 900,
        ("_in_force_watts", "a"): 1_500,
        ("_largest_in_force_watts", "a"): 1_400,
        ("_enforced", "a"): 1,
        ("_guaranteed_watts", "a"): 300,
        ("_shortfall_watts", "a"): 20,
        ("_headroom_watts", "a"): 0,
        ("_drawn_watts", "a", "measured"): 500,
        ("_drawn_watts", "a", "modelled"): 0,
        ("_nodes", "a", "all"): 5,
        ("_nodes", "a", "power_unknown"): 2,
        ("_nodes", "a", "draw_unknown"): 1,
        ("_nodes", "a", "lowered"): 3,
        ("_nodes", "a", "unconfirmed"): 4,
        ("_nodes", "a", "refused"): 0,
        ("_nodes", "a", "silent"): 1,
    }


def test_what_is_not_known_has_no_sample():
    found = samples({"a": state(accepted="False"), "b": state(spec=None, accepted="False")})
    assert found == {
        ("s", "true"): 0,
        ("s", "false"): 2,
        ("_limit_watts", "a"): 1_000,
        ("_reserve_watts", "a"): 150,
        ("_enforced", "a"): 0,
        ("_enforced", "b"): 0,
    }


def test_all_domains_are_counted_and_the_first_have_series():
    found = samples({f"d{index:05}": state() for index in range(MOST_SERIES + 5)})
    assert found["s", "true"] == MOST_SERIES + 5
    limits = sorted(name for name, *_ in [key[1:] for key in found if key[0] == "_limit_watts"])
    assert (len(limits), limits[0], limits[-1]) == (MOST_SERIES, "d00000", f"d{MOST_SERIES - 1:05}")


def test_an_oversubscribed_domain_shows_what_is_permitted_and_how_warm_its_breaker_is():
    over = {
        "raised": False,
        "permittedWatts": 1_300,
        "fallbackWatts": 990,
        "breakerDamagePercent": 90,
        "assumedDamagePercent": 60,
        "state": "BreakerWarm",
        "reason": "warm",
    }
    found = samples({"a": state(oversubscription=over), "b": state()})
    shown = {key: value for key, value in found.items() if "b" in key or "a" in key}
    states = {key[2]: shown.pop(key) for key in list(shown) if key[0] == "_raise_state"}
    assert set(states) == {"Raised", "BreakerWarm", "NearLimit"} | {each.value for each in RaiseState}
    assert [each for each, value in states.items() if value] == ["BreakerWarm"]
    shown = {
        key: value for key, value in shown.items() if key[0] not in ("_limit_watts", "_reserve_watts", "_enforced")
    }
    assert shown == {
        ("_permitted_watts", "a"): 1_300,
        ("_fallback_watts", "a"): 990,
        ("_raised", "a"): 0,
        ("_breaker_damage_ratio", "a", "counted"): 0.3,
        ("_breaker_damage_ratio", "a", "assumed"): 0.6,
    }
