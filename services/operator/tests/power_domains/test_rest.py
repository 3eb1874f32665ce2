"""The rest of a server: the highest of a day of readings that can be believed, else the models' upper end."""

import msgspec
import pytest

from joulie_api.wire import decode_kind
from joulie_core.budget import PublishedRest, ServerRest
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import view_from_node
from joulie_core.kinds import PowerDomain
from joulie_core.kinds.node_twin import PowerMeasurement, ServerMeasurement
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_core.power.rest import measured_rest, modelled_rest
from joulie_core.timestamps import rfc3339
from joulie_operator.power_domains.rest import RestTracker, published_rests
from joulie_testing.api import make_power_domain

START_S = 1_800_000_000.0
HOUR_S = 3_600.0


def hardware(sockets=2):
    labels = {"joulie.io/hw.cpu-model": "AMD-EPYC-7763", "joulie.io/hw.cpu-sockets": str(sockets)}
    allocatable = {"cpu": str(128 * sockets), "memory": "512Gi"}
    node = Node(NodeName("n"), labels=labels, allocatable=allocatable, capacity=allocatable)
    return view_from_node(node, Inventory.load())


VIEW = hardware()
BAND = modelled_rest(VIEW)
MODELLED = ServerRest(-(-int(BAND.most_watts * 1e6) // 1000), -(-int(BAND.least_watts * 1e6) // 1000))


class Readings:
    """One node whose BMC and agent are read by a tracker."""

    def __init__(self):
        self.now_s = START_S
        self.tracker = RestTracker(lambda: self.now_s)

    def devices(self, watts, source="agent", quality="measured"):
        power = {"source": source, "quality": quality}
        return PowerMeasurement.model_validate(power if watts is None else {**power, "measuredNodePowerW": watts})

    def look(self, server=None, devices=300.0, *, after_s=60.0, sampled_s=None, **fields):
        """Look once; `server` is the BMC's reading, a new one unless its time is given."""
        self.now_s += after_s
        measurement = None
        if server is not None:
            at = rfc3339(self.now_s if sampled_s is None else sampled_s)
            found = {"source": "redfish", "measuredServerPowerW": server, "sampledAt": at}
            measurement = ServerMeasurement.model_validate(found)
        return self.tracker.rest(NodeName("n"), VIEW, self.devices(devices, **fields), measurement)

    def read(self, *servers, devices=300.0, **fields):
        for each in servers:
            rest = self.look(each, devices, **fields)
        return rest


def counted(server, devices=300.0):
    return pytest.approx(1000 * measured_rest(server, devices, VIEW), abs=1.0)


def test_without_a_bmc_the_upper_end_of_the_model_counts():
    readings = Readings()
    for _ in range(5):
        assert readings.look() == MODELLED


def test_the_third_reading_that_can_be_compared_counts_and_until_then_the_model():
    readings = Readings()
    # The first only begins: there is none before it that it could be compared with.
    for _ in range(3):
        rest = readings.read(400.0)
        assert (rest.mw, rest.measured, rest.settling) == (MODELLED.mw, False, True)
    rest = readings.read(400.0)
    assert (rest.mw, rest.measured, rest.settling) == (counted(400.0), True, False)
    assert rest.least_mw == MODELLED.least_mw


def test_the_same_reading_seen_twice_is_one():
    readings = Readings()
    readings.look(400.0)
    at_s = readings.now_s
    for _ in range(5):
        assert not readings.look(400.0, sampled_s=at_s).measured


def test_a_rest_rises_at_once_and_falls_after_a_day():
    readings = Readings()
    assert readings.read(*[400.0] * 4).mw == counted(400.0)
    assert readings.read(450.0).mw == counted(450.0)
    assert readings.read(*[400.0] * 4).mw == counted(450.0)
    # Within the day, and within the hour that ends it.
    assert readings.read(400.0, after_s=23 * HOUR_S).mw == counted(450.0)
    assert readings.read(400.0, after_s=2 * HOUR_S).mw == counted(400.0)
    # An hour is whole for a day after its beginning.
    at_s = readings.now_s
    readings.look(500.0, after_s=HOUR_S - at_s % HOUR_S)
    assert readings.look(after_s=24 * HOUR_S).mw == counted(500.0)
    assert readings.look(after_s=1.0) == MODELLED


@pytest.mark.parametrize(("moved", "counts"), [(28.0, True), (29.0, False), (-28.0, True), (-29.0, False)])
def test_a_reading_across_a_change_of_load_says_nothing(moved, counts):
    readings = Readings()
    readings.read(*[400.0] * 4)
    rest = readings.read(500.0, devices=300.0 + moved)
    assert (rest.mw == counted(500.0, min(300.0, 300.0 + moved))) is counts
    assert (rest.mw == counted(400.0)) is not counts


def test_after_a_change_of_load_readings_are_compared_anew():
    readings = Readings()
    readings.read(*[400.0] * 4)
    readings.read(250.0, devices=100.0)
    assert readings.read(250.0, devices=100.0).mw == counted(250.0, 100.0)


def test_a_bmc_that_reads_less_than_any_such_server_draws_is_not_believed():
    readings = Readings()
    assert readings.read(*[400.0] * 4).measured
    rest = readings.read(310.0)
    assert (rest.mw, rest.measured, rest.settling) == (MODELLED.mw, False, False)
    # It has to be read again as often as a new one.
    assert not readings.read(*[400.0] * 2).measured
    assert readings.read(400.0).measured


#: Three times the highest power of the devices and the upper end of the model.
_DOUBTFUL_WATTS = 3 * (VIEW.tdp_watts + MODELLED.mw / 1000)


def test_one_reading_far_above_any_such_server_counts_only_where_the_next_one_is_too():
    readings = Readings()
    readings.read(*[400.0] * 4)
    # As DCMI has it where all bits are set.
    for _ in range(3):
        assert readings.read(65_535.0, 400.0).mw == counted(400.0)
    assert readings.read(_DOUBTFUL_WATTS + 2.0).mw == counted(400.0)
    assert readings.read(_DOUBTFUL_WATTS + 1.0).mw == counted(_DOUBTFUL_WATTS + 1.0)
    assert readings.read(_DOUBTFUL_WATTS + 3.0).mw == counted(_DOUBTFUL_WATTS + 3.0)


def test_a_reading_just_below_that_counts_at_once():
    readings = Readings()
    readings.read(*[400.0] * 4)
    assert readings.read(_DOUBTFUL_WATTS - 1.0).mw == counted(_DOUBTFUL_WATTS - 1.0)


@pytest.mark.parametrize(
    "fields", [{"source": "prometheus"}, {"quality": "modelled"}, {"quality": "unknown"}, {"devices": None}]
)
def test_only_readings_of_agents_are_those_of_devices(fields):
    assert not Readings().read(*[400.0] * 6, **fields).measured


def test_settling_ends_where_readings_stay_away():
    readings = Readings()
    assert readings.look(400.0, devices=None).settling
    assert readings.look(400.0, devices=None, after_s=599.0).settling
    assert not readings.look(400.0, devices=None, after_s=1.0).settling
    assert not Readings().look().settling


def test_a_node_that_is_gone_begins_anew():
    readings = Readings()
    readings.read(*[400.0] * 4)
    readings.tracker.retain([NodeName("n"), NodeName("m")])
    assert readings.look().measured
    readings.tracker.retain([NodeName("m")])
    assert readings.look() == MODELLED


def test_one_domain_without_a_sum_hides_no_other():
    assert published_rests({"a": domain(), "d": domain({"watts": 300})}, START_S) == {"d": PublishedRest(300_000, 2)}


def domain(rest=None, nodes=2, age_s=0.0):
    made = make_power_domain("d", limit_watts=1_000, onLostControl="Release")
    made["status"] = {"lastUpdated": rfc3339(START_S - age_s)}
    if nodes is not None:
        made["status"]["nodes"] = nodes
    if rest is not None:
        made["status"]["rest"] = rest
    return decode_kind(PowerDomain)(msgspec.json.encode(made))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (domain({"watts": 300}), {"d": PublishedRest(300_000, 2)}),
        (domain({"watts": 300}, age_s=900.0), {"d": PublishedRest(300_000, 2)}),
        (domain({"watts": 300}, age_s=901.0), {}),
        (domain({"watts": 300}, age_s=-1.0), {}),
        (domain({"watts": 300, "unknownNodes": 1}), {}),
        (domain({"watts": 300}, nodes=None), {}),
        (domain(), {}),
    ],
)
def test_what_was_published_counts_while_it_is_young_and_whole(found, expected):
    assert published_rests({"d": found}, START_S) == expected
