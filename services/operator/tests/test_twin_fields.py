"""Every field of a NodeTwin is declared, and the declaration is what is compared."""

import pytest

from joulie_core.kinds.node_twin import (
    DomainSupply,
    EffectiveCapState,
    MeasurementQuality,
    MeasurementSource,
    NodeTwinStatus,
    PowerMeasurement,
    SchedulableClass,
    ServerMeasurement,
    ServerMeasurementSource,
)
from joulie_operator.twin_fields import POWER_FIELDS, SERVER_FIELDS, STATUS_FIELDS, Band, Unbanded, decisive, has_moved

TDP_WATTS = 500.0
POWER = PowerMeasurement(
    source=MeasurementSource.AGENT,
    quality=MeasurementQuality.MEASURED,
    measured_node_power_w=300,
    cpu_capped_power_w=280,
    gpu_capped_power_w=120,
    node_capped_power_w=400,
    cpu_tdp_w=350,
    gpu_tdp_w=150,
    node_tdp_w=TDP_WATTS,
    power_trend_w_per_min=5,
)
SERVER = ServerMeasurement(
    source=ServerMeasurementSource.REDFISH,
    measured_server_power_w=420,
    sampled_at="2026-01-01T00:00:00Z",
    interval_seconds=60,
)
STATUS = NodeTwinStatus(
    schedulable_class=SchedulableClass.ECO,
    predicted_power_headroom_score=25,
    predicted_cooling_stress_score=30,
    predicted_psu_stress_score=35,
    hardware_density_score=4,
    estimated_pue=1.3,
    effective_cap_state=EffectiveCapState(cpu_pct=60, gpu_pct=80),
    power_measurement=POWER,
    server_measurement=SERVER,
    power_domains=(DomainSupply(domain="rack-1", available_watts=100),),
    last_updated="2026-01-01T00:00:00Z",
)
#: What becomes of fields that are not numbers.
OTHER = {
    "schedulable_class": SchedulableClass.PERFORMANCE,
    "effective_cap_state": EffectiveCapState(cpu_pct=60, gpu_pct=81),
    "last_updated": "2026-01-01T00:01:00Z",
    "power_domains": (DomainSupply(domain="rack-1"),),
    "source": "another",
    "sampled_at": "2026-01-01T00:01:00Z",
    "quality": MeasurementQuality.MODELLED,
}
#: Part of the twin, name of its field in it, and rule.
FIELDS = [
    (part, name, rule)
    for part, fields in (
        ("", STATUS_FIELDS),
        ("power_measurement", POWER_FIELDS),
        ("server_measurement", SERVER_FIELDS),
    )
    for name, rule in fields.items()
]
IDS = [name for _, name, _ in FIELDS]
BANDS = [each for each in FIELDS if isinstance(each[2], Band)]


def value(part, name):
    return getattr(getattr(STATUS, part) if part else STATUS, name)


def changed(part, name, new):
    if part:
        return STATUS.model_copy(update={part: getattr(STATUS, part).model_copy(update={name: new})})
    return STATUS.model_copy(update={name: new})


def width(rule):
    return rule.width * TDP_WATTS if rule.of_tdp else rule.width


def test_no_field_is_missing():
    assert STATUS_FIELDS.keys() | {"power_measurement", "server_measurement"} == NodeTwinStatus.model_fields.keys()
    assert POWER_FIELDS.keys() == PowerMeasurement.model_fields.keys()
    assert SERVER_FIELDS.keys() == ServerMeasurement.model_fields.keys()


def test_every_field_has_a_value_here():
    assert None not in [*STATUS.model_dump().values(), *POWER.model_dump().values(), *SERVER.model_dump().values()]


def test_a_twin_is_as_it_was():
    assert decisive(STATUS) == decisive(STATUS.model_copy())
    assert not has_moved(STATUS, STATUS.model_copy())


@pytest.mark.parametrize(("part", "name", "rule"), FIELDS, ids=IDS)
def test_a_change_counts_as_declared(part, name, rule):
    old = value(part, name)
    new = OTHER[name] if name in OTHER else old + (1.01 * width(rule) if isinstance(rule, Band) else 0.1)
    after = changed(part, name, new)
    assert (decisive(after) != decisive(STATUS)) is (rule is Unbanded.DECISIVE)
    assert has_moved(STATUS, after) is (isinstance(rule, Band) or rule is Unbanded.STEPPED)


@pytest.mark.parametrize(("part", "name", "rule"), BANDS, ids=[name for _, name, _ in BANDS])
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_change_within_the_band_is_none_in_either_direction(part, name, rule, sign):
    old = value(part, name)
    assert not has_moved(STATUS, changed(part, name, old + sign * 0.99 * width(rule)))
    assert has_moved(STATUS, changed(part, name, old + sign * 1.01 * width(rule)))


@pytest.mark.parametrize(("part", "name", "rule"), BANDS, ids=[name for _, name, _ in BANDS])
def test_a_value_that_appears_or_goes_has_moved(part, name, rule):
    del rule
    gone = changed(part, name, None)
    assert has_moved(STATUS, gone)
    assert has_moved(gone, STATUS)
    assert not has_moved(gone, gone)


@pytest.mark.parametrize("part", ["power_measurement", "server_measurement"])
def test_a_measurement_that_appears_or_goes_is_decisive(part):
    without = STATUS.model_copy(update={part: None})
    assert decisive(without) != decisive(STATUS)
    assert has_moved(without, STATUS)
    assert has_moved(STATUS, without)
    assert not has_moved(without, without)


@pytest.mark.parametrize(
    ("part", "name", "unit"),
    [
        ("", "predicted_power_headroom_score", 2),
        ("", "predicted_cooling_stress_score", 2),
        ("", "predicted_psu_stress_score", 2),
        ("", "estimated_pue", 0.05),
        ("power_measurement", "measured_node_power_w", 10),
        ("power_measurement", "power_trend_w_per_min", 12),
    ],
)
def test_what_may_move_a_score_by_two_points_is_written(part, name, unit):
    zero = changed(part, name, 0)
    assert not has_moved(zero, changed(part, name, unit))
    assert has_moved(zero, changed(part, name, 1.001 * unit))


def test_only_times_are_ignored():
    assert [name for _, name, rule in FIELDS if rule is Unbanded.IGNORED] == ["last_updated", "sampled_at"]
