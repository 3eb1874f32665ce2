import pytest

from joulie_core.kinds.node_bmc import NodeBMC
from joulie_core.kinds.node_twin import ServerMeasurementSource
from joulie_core.twin.server_power import server_measurement

SAMPLED_S = 1_800_000_000.0
SAMPLED_AT = "2027-01-15T08:00:00Z"


def bmc(**status):
    spec = {
        "nodeName": "n1",
        "protocol": "redfish",
        "address": "https://bmc",
        "credentialsSecretRef": {"name": "bmc"},
    }
    fields = {"powerWatts": 344.25, "sampledAt": SAMPLED_AT, "intervalSeconds": 60} | status
    known = {key: value for key, value in fields.items() if value is not None}
    return NodeBMC.model_validate({"metadata": {"name": "n1"}, "spec": spec, "status": known})


def test_a_reading_has_its_source_its_time_and_its_interval():
    found = server_measurement(bmc(), SAMPLED_S + 30)
    assert found.source is ServerMeasurementSource.REDFISH
    assert (found.measured_server_power_w, found.sampled_at, found.interval_seconds) == (344.2, SAMPLED_AT, 60)


@pytest.mark.parametrize(("interval_s", "most_s"), [(60, 180), (120, 360), (1, 180), (None, 180)])
def test_past_three_intervals_there_is_no_reading(interval_s, most_s):
    reading = bmc(intervalSeconds=interval_s)
    for side in (1, -1):
        assert server_measurement(reading, SAMPLED_S + side * most_s) is not None
        assert server_measurement(reading, SAMPLED_S + side * (most_s + 1)) is None


@pytest.mark.parametrize("status", [{"powerWatts": None}, {"powerWatts": 0}, {"powerWatts": 2e5}, {"sampledAt": None}])
def test_what_is_not_measured_is_no_reading(status):
    assert server_measurement(bmc(**status), SAMPLED_S) is None
