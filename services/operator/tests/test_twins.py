"""When a twin is written."""

import msgspec
import pytest

from joulie_api.testing import make_node, make_node_twin
from joulie_api.wire import decode_node
from joulie_core import labels
from joulie_core.caps import CapIntent
from joulie_core.hardware.inventory import Inventory
from joulie_core.kinds.node_hardware import NodeHardwareStatus
from joulie_core.kinds.node_twin import MeasurementQuality, MeasurementSource, SchedulableClass
from joulie_core.names import NodeName
from joulie_core.timestamps import rfc3339
from joulie_operator.cluster import Cluster
from joulie_operator.power import PowerSample, PowerTracker
from joulie_operator.published import PublishedTwin, decode_twin
from joulie_operator.published_state import PublishedPart, PublishedState
from joulie_operator.twins import NoFacility, RackCapacities, TwinTracker

INVENTORY = Inventory.load()
NAMES = [NodeName(f"n{index}") for index in range(40)]
N0, N1 = NAMES[0], NAMES[1]
CLASS = SchedulableClass.PERFORMANCE


class FreshWatch:
    def is_stale(self):
        return False


class World:
    """Forty nodes in one rack with a power meter each."""

    def __init__(self, names=NAMES):
        self.watts = dict.fromkeys(names, 300.0)
        self.now = 0.0
        self.cap = CapIntent(cpu_pct=100)
        self.cluster = Cluster(INVENTORY, pods=FreshWatch(), on_change=lambda _change: None)
        self.published = {}
        self.state = PublishedState({}, self.published, clock=lambda: self.now, wall=lambda: WALL + self.now)
        for name in names:
            self.cluster.on_node(name, None, decode_node(msgspec.json.encode(make_node(name, **HARDWARE))))
        self.power = PowerTracker([self], max_age_s=180)
        self.twins = TwinTracker(
            self.cluster,
            self.power,
            NoFacility(),
            RackCapacities(50_000, {"small": 24_000}),
            heartbeat_s=90,
            least_interval_s=10,
        )

    def reading(self, name):
        watts = self.watts[name]
        return None if watts is None else PowerSample(watts, self.now, MeasurementSource.AGENT)

    def write(self, name=N0):
        status = self.status(name)
        with self.state.writing(PublishedPart.TWIN_STATUS, name, status):
            pass
        return status

    def status(self, name=N0, schedulable_class=CLASS):
        self.twins.measure(name, self.cap, self.now)
        return self.twins.status(name, schedulable_class, self.cap, self.now)

    def is_due(self, name=N0, schedulable_class=CLASS):
        return self.twins.is_due(name, self.status(name, schedulable_class), self.state.last_twin(name))


WALL = 1_800_000_000.0
EPYC = {"rawModel": "AMD EPYC 7763", "sockets": 2, "totalCores": 128, "threads": 256}
HARDWARE = {"cpu_model": "AMD EPYC 7763", "cpu_sockets": 2, "cpu": 256, "labels": {labels.RACK: "small"}}


def test_a_twin_never_written_is_due():
    assert World().is_due()


def test_a_twin_whose_numbers_stay_within_the_dead_band_waits_for_its_heartbeat():
    world = World()
    world.write()
    world.now, world.watts[N0] = 60, 303
    assert not world.is_due()
    world.now = 90
    assert world.is_due()


def test_a_twin_whose_power_moved_is_due_but_not_more_often_than_allowed():
    world = World()
    world.write()
    world.now, world.watts[N0] = 5, 400
    assert not world.is_due()
    world.now = 10
    assert world.is_due()


def test_another_class_or_other_caps_are_due_at_once():
    world = World()
    world.write()
    assert world.is_due(schedulable_class=SchedulableClass.DRAINING)
    world.cap = CapIntent(cpu_pct=60)
    assert world.is_due()


def test_a_measurement_that_fails_is_due_at_once_since_its_source_changes():
    world = World()
    world.write()
    world.watts[N0] = None
    status = world.status()
    assert status.power_measurement.quality is MeasurementQuality.MODELLED
    assert world.is_due()


def test_a_twin_from_before_a_restart_is_due_only_for_another_class_or_at_its_heartbeat():
    world = World()
    world.published[N0] = PublishedTwin("performance", rfc3339(WALL - 20), "uid")
    assert not world.is_due()
    assert world.is_due(schedulable_class=SchedulableClass.ECO)
    world.now = 70
    assert world.is_due()


@pytest.mark.parametrize("last_updated", ["", "yesterday", rfc3339(WALL + 60)])
def test_a_twin_of_unknown_age_is_due(last_updated):
    world = World()
    world.published[N0] = PublishedTwin("performance", last_updated, "uid")
    assert world.is_due()


def test_a_reading_far_above_an_inferred_tdp_leaves_no_head_room():
    world = World(names=[N0])
    unlisted = make_node(N0, cpu=96, gpus=8, gpu_model="ACME Accelerator 9000")
    world.cluster.on_node(N0, None, decode_node(msgspec.json.encode(unlisted)))
    world.watts[N0] = 10_000.0
    status = world.status()
    assert status.power_measurement.quality is MeasurementQuality.MEASURED
    assert status.power_measurement.measured_node_power_w == 10_000
    assert status.predicted_power_headroom_score < 0


def test_a_reading_too_high_for_known_hardware_leaves_no_head_room_either():
    world = World(names=[N0])
    world.cluster.on_hardware(N0, NodeHardwareStatus.model_validate({"cpu": EPYC, "gpu": {"present": False}}))
    world.watts[N0] = 3 * 560 + 1
    status = world.status()
    assert status.power_measurement.quality is MeasurementQuality.MODELLED
    assert status.predicted_power_headroom_score == -200


@pytest.mark.parametrize(
    "facts",
    [
        {"cpu": EPYC},
        {"cpu": EPYC | {"rawModel": "AMD EPYC 7B13"}, "gpu": {"present": False}},
        {"cpu": EPYC, "gpu": {"present": False}, "quality": {"overall": "heuristic", "facts": {"cpu": "labelled"}}},
    ],
    ids=["GPUs unknown", "a relative's maximum", "labels"],
)
def test_a_maximum_that_is_inferred_bounds_no_measurement(facts):
    world = World(names=[N0])
    world.cluster.on_hardware(N0, NodeHardwareStatus.model_validate(facts))
    world.watts[N0] = 6000.0
    status = world.status()
    assert status.power_measurement.quality is MeasurementQuality.MEASURED
    assert status.predicted_power_headroom_score < -200


@pytest.mark.parametrize(
    ("power", "measured_watts"),
    [
        ({"source": "agent", "quality": "measured", "measuredNodePowerW": 512.5}, 512.5),
        ({"source": "agent", "quality": "measured", "measuredNodePowerW": 0}, None),
        ({"source": "utilization", "quality": "modelled", "measuredNodePowerW": 512.5}, None),
        ({"source": "static", "quality": "unknown"}, None),
        (None, None),
    ],
)
def test_only_what_was_measured_is_taken_from_a_published_twin(power, measured_watts):
    raw = make_node_twin("n0", status={"powerMeasurement": power})
    assert decode_twin(msgspec.json.encode(raw)).measured_watts == measured_watts


def test_a_node_that_was_measured_before_a_restart_is_no_freer_after_it():
    world = World(names=[N0])
    world.watts[N0] = None
    modelled = world.status().predicted_power_headroom_score
    world.twins.adopt(N0, 500)
    assert world.status().power_measurement.measured_node_power_w == 500
    assert world.status().predicted_power_headroom_score < modelled


def test_heartbeats_of_different_nodes_do_not_come_together():
    world = World()
    for name in NAMES:
        world.write(name)
    due_at = {}
    for second in range(91):
        world.now = float(second)
        for name in NAMES:
            if name not in due_at and world.is_due(name):
                due_at[name] = second
    assert min(due_at.values()) >= 67
    assert max(due_at.values()) <= 90
    assert len(set(due_at.values())) >= 10


def test_psu_stress_is_the_share_of_the_racks_capacity_that_its_nodes_draw():
    world = World()
    for name in NAMES:
        world.status(name)
    world.twins.sum_racks()
    assert world.status().predicted_psu_stress_score == pytest.approx(40 * 300 / 24_000 * 100)


def test_a_node_without_rack_has_no_psu_stress():
    world = World(names=[N0])
    world.cluster.on_node(N0, None, decode_node(msgspec.json.encode(make_node(N0, cpu_model="AMD EPYC 7763"))))
    world.status()
    world.twins.sum_racks()
    assert world.status().predicted_psu_stress_score is None
