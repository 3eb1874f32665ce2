"""When a twin is written."""

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from joulie_api.failures import Failures
from joulie_api.wire import decode_node
from joulie_core import labels
from joulie_core.caps import CapIntent
from joulie_core.fnv import fnv1a_32
from joulie_core.hardware.inventory import Inventory
from joulie_core.kinds.node_hardware import NodeHardwareStatus
from joulie_core.kinds.node_twin import (
    DomainSupply,
    MeasurementQuality,
    MeasurementSource,
    SchedulableClass,
    ServerMeasurement,
    ServerMeasurementSource,
)
from joulie_core.names import NodeName
from joulie_core.timestamps import rfc3339
from joulie_core.twin import LinearPue, MeasuredPue
from joulie_operator.cluster import Cluster
from joulie_operator.pods import PodSummary
from joulie_operator.power import PowerSample, PowerTracker
from joulie_operator.published import PublishedTwin, decode_twin
from joulie_operator.published_state import LastTwin, PublishedPart, PublishedState
from joulie_operator.twins import RackCapacities, TwinTracker
from joulie_testing.api import make_node, make_node_twin

INVENTORY = Inventory.load()
NAMES = [NodeName(f"n{index}") for index in range(40)]
N0, N1 = NAMES[0], NAMES[1]
CLASS = SchedulableClass.PERFORMANCE


class FreshWatch:
    def is_stale(self):
        return False


class Room:
    """A facility with one cooling zone and one rack that are measured."""

    def __init__(self, *, clock):
        self.clock = clock
        self.rack = None
        self.model = LinearPue()

    def ambient_c(self, zone, now):
        assert now == self.clock()
        return {"hot": 40.0}.get(zone)

    def rack_watts(self, rack, now):
        assert now == self.clock()
        return self.rack if rack == "small" else None

    def pue(self, now):
        assert now == self.clock()
        return self.model


class World:
    """Forty nodes in one rack with a power meter each."""

    def __init__(self, names=NAMES):
        self.watts = dict.fromkeys(names, 300.0)
        self.now = 0.0
        self.server = None
        self.supplies = {}
        self.cap = CapIntent(cpu_pct=100)
        self.cluster = Cluster(
            INVENTORY, pods=FreshWatch(), on_change=lambda _change: None, failures=Failures(CollectorRegistry())
        )
        self.published = {}
        self.state = PublishedState({}, self.published, clock=lambda: self.now, wall=lambda: WALL + self.now)
        for name in names:
            self.cluster.on_node(name, None, decode_node(msgspec.json.encode(make_node(name, **HARDWARE))))
        self.power = PowerTracker([self], max_age_s=180)
        self.room = Room(clock=lambda: self.now)
        self.twins = TwinTracker(
            self.cluster,
            self.power,
            self.room,
            RackCapacities(50_000, {"small": 24_000}),
            lambda name: self.server if name == N0 else None,
            power_domains=self.supplies.get,
            heartbeat_s=90,
            least_interval_s=10,
            settle_s=20,
        )

    def set_node(self, name=N0, **fields):
        found = decode_node(make_json(name, fields))
        self.cluster.on_node(name, self.cluster.nodes.get(name), found)

    def reading(self, name):
        watts = self.watts.get(name)
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
        return self.twins.is_due(name, self.status(name, schedulable_class), self.state.last_twin(name), self.now)


SERVER = ServerMeasurement(
    source=ServerMeasurementSource.REDFISH,
    measured_server_power_w=420,
    sampled_at="2027-01-15T08:00:00Z",
    interval_seconds=60,
)
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


def test_what_domains_can_supply_is_in_the_twin_and_written_but_not_more_often_than_allowed():
    world = World()
    assert world.write().power_domains is None
    world.supplies[N0] = (DomainSupply(domain="rack-1", available_watts=100),)
    world.now = 5
    assert not world.is_due()
    world.now = 10
    assert world.is_due()
    assert world.write().dump()["powerDomains"] == [{"domain": "rack-1", "availableWatts": 100}]
    world.now = 20
    assert not world.is_due()
    del world.supplies[N0]
    assert world.is_due()
    assert "powerDomains" not in world.write().dump()


def bind(world, number, name=N0):
    world.cluster.on_pod(f"p{number}", None, PodSummary(node=name, performance=False, cpu_cores=1, gpus=0))


def sweep(world, until, writes):
    """Sweep every ten seconds, and write what is due."""
    while world.now < until:
        world.now += 10
        if world.is_due():
            world.write()
            writes.append(world.now)


def test_numbers_wait_for_the_measurement_that_contains_a_pod():
    world, writes = World(), []
    world.write()
    sweep(world, 30, writes)
    bind(world, 1)
    world.watts[N0] = 400
    sweep(world, 50, writes)
    assert writes == []
    sweep(world, 60, writes)
    assert writes == [60], "seen at 40, twenty seconds before"


def test_a_burst_of_pods_on_a_node_costs_one_write_of_its_twin():
    world, writes = World(), []
    world.write()
    sweep(world, 30, writes)
    for number in range(2):
        bind(world, number)
        world.watts[N0] += 50
        sweep(world, world.now + 10, writes)
    sweep(world, 80, writes)
    assert writes == [70]


def test_pods_that_keep_coming_hold_back_numbers_no_longer_than_twice_the_time():
    world, writes = World(), []
    world.write()
    sweep(world, 30, writes)
    for number in range(6):
        bind(world, number)
        world.watts[N0] += 20
        sweep(world, world.now + 10, writes)
    assert writes == [80], "the first was seen at 40"


def test_numbers_that_move_without_a_new_pod_do_not_wait():
    world, writes = World(), []
    bind(world, 1)
    world.write()
    world.cluster.on_pod("p1", PodSummary(N0, False, 1, 0), None)
    bind(world, 2, N1)
    world.watts[N0] = 400
    sweep(world, 10, writes)
    assert writes == [10]


def test_a_change_of_class_does_not_wait_for_pods():
    world = World()
    world.write()
    bind(world, 1)
    world.now = 10
    assert not world.is_due()
    assert world.is_due(schedulable_class=SchedulableClass.DRAINING)


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
    world = World(NAMES[:20])
    due_at = {}
    for name in NAMES[:20]:
        status = world.status(name)
        due_at[name] = next(
            second
            for second in range(91)
            if world.twins.is_due(name, status, LastTwin(float(second), CLASS, status), world.now)
        )
    assert min(due_at.values()) >= 68
    assert max(due_at.values()) <= 90
    assert len(set(due_at.values())) >= 10


def test_a_heartbeat_comes_at_the_nodes_own_share_of_the_period():
    world = World([N0])
    status = world.status()
    heartbeat_s = 90 * (0.75 + 0.25 * (fnv1a_32(N0) % 1000) / 1000)
    assert not world.twins.is_due(N0, status, LastTwin(heartbeat_s - 1e-6, CLASS, status), world.now)
    assert world.twins.is_due(N0, status, LastTwin(heartbeat_s, CLASS, status), world.now)


@pytest.mark.parametrize("age_s", [0.0, 0.5])
def test_a_twin_that_was_just_written_is_not_due(age_s):
    world = World([N0])
    status = world.status()
    assert not world.twins.is_due(N0, status, LastTwin(age_s, CLASS, status), world.now)


def test_psu_stress_is_the_share_of_the_racks_capacity_that_its_nodes_draw():
    world = World()
    for name in NAMES:
        world.status(name)
    world.twins.sum_racks()
    assert world.status().predicted_psu_stress_score == pytest.approx(40 * 300 / 24_000 * 100)


def test_the_measured_draw_of_a_rack_wins_over_the_sum_of_its_nodes():
    world = World([N0])
    world.status()
    world.twins.sum_racks()
    world.room.rack = 6000.0
    assert world.status().predicted_psu_stress_score == 25


def test_nodes_without_rack_do_not_end_the_sum_and_another_rack_has_the_default_capacity():
    world = World(NAMES[:3])
    world.set_node(N0, labels={labels.RACK: None})
    world.set_node(NAMES[2], labels={labels.RACK: "large"})
    world.watts[NAMES[2]] = 250.0
    for name in NAMES[:3]:
        world.status(name)
    world.twins.sum_racks()
    assert world.status(N1).predicted_psu_stress_score == pytest.approx(1.2, abs=0.06)
    assert world.status(NAMES[2]).predicted_psu_stress_score == pytest.approx(0.5)


def test_a_node_of_unknown_power_counts_with_what_its_caps_allow():
    world = World([N0])
    world.set_node(cpu_model=None, cpu_sockets=None, cpu=0, gpus=8, gpu_model="NVIDIA H100 80GB HBM3")
    world.watts[N0] = None
    power = world.status().power_measurement
    assert (power.quality, power.measured_node_power_w) == (MeasurementQuality.UNKNOWN, None)
    world.twins.sum_racks()
    assert world.status().predicted_psu_stress_score == pytest.approx(power.node_capped_power_w / 240, abs=0.06)


def test_a_rack_with_a_node_of_which_nothing_is_known_has_no_sum():
    world = World([N0, N1])
    world.watts["gone"] = None
    for name in (N0, "gone", N1):
        world.status(name)
    world.set_node("gone", cpu_model=None, cpu_sockets=None, cpu=0)
    world.status("gone")
    world.twins.sum_racks()
    unknown = world.status("gone").power_measurement
    assert unknown is None
    assert world.status().predicted_psu_stress_score is None


def test_a_node_without_rack_has_no_psu_stress():
    world = World(names=[N0])
    world.set_node(labels={labels.RACK: None})
    world.status()
    world.twins.sum_racks()
    world.room.rack_watts = lambda _rack, _now: 1000.0
    assert world.status().predicted_psu_stress_score is None


def test_a_twin_shows_the_power_of_its_last_measurement_and_measures_if_there_is_none():
    world = World([N0])
    world.now = 5.0
    status = world.twins.status(N0, CLASS, world.cap, world.now)
    assert status.power_measurement.measured_node_power_w == 300
    world.watts[N0] = 400.0
    status = world.twins.status(N0, CLASS, world.cap, world.now)
    assert status.power_measurement.measured_node_power_w == 300
    world.twins.measure(N0, world.cap, world.now)
    status = world.twins.status(N0, CLASS, world.cap, world.now)
    assert status.power_measurement.measured_node_power_w == 400


def test_a_twin_shows_density_trend_cooling_and_pue():
    world = World([N0])
    plain = world.status()
    assert plain.hardware_density_score == round(world.cluster.hardware(N0).density.total, 2) > 0
    assert plain.estimated_pue is not None
    world.set_node(labels={labels.COOLING_ZONE: "hot"})
    assert world.status().predicted_cooling_stress_score > plain.predicted_cooling_stress_score
    world.room.model = MeasuredPue(1000.0, 500.0)
    assert world.status().estimated_pue == 1.5
    for _ in range(5):
        world.now += 60
        world.watts[N0] += 60
        status = world.status()
    assert status.power_measurement.power_trend_w_per_min == pytest.approx(60)


def test_the_budget_follows_the_hardware_and_the_caps():
    world = World([N0])
    first = world.status().power_measurement
    world.cap = CapIntent(cpu_pct=50)
    capped = world.status()
    assert capped.power_measurement.node_capped_power_w == pytest.approx(first.node_tdp_w / 2)
    assert capped.effective_cap_state.cpu_pct == 50
    world.set_node(cpu_sockets=1)
    assert world.status().power_measurement.node_tdp_w == first.node_tdp_w / 2


def test_the_model_counts_the_load_and_the_shares_of_gpus():
    world = World([N0])
    world.watts[N0] = None
    h100 = {"gpus": 8, "gpu_model": "NVIDIA H100 80GB HBM3", "labels": {"nvidia.com/gpu.replicas": "4"}}
    world.set_node(**h100)
    assert world.cluster.hardware(N0).gpu_units == 4
    idle = world.status().power_measurement.measured_node_power_w
    world.cluster.on_pod("p", None, PodSummary(node=N0, performance=False, cpu_cores=0, gpus=8))
    shared = world.status().power_measurement.measured_node_power_w
    world.set_node(**(h100 | {"labels": {}}))
    whole = world.status().power_measurement.measured_node_power_w
    assert idle < shared < whole


def test_a_node_that_is_not_known_has_no_figures():
    world = World([N0])
    world.watts["gone"] = None
    status = world.status("gone")
    assert (status.power_measurement, status.hardware_density_score) == (None, None)
    assert status.predicted_power_headroom_score is None


def test_nothing_of_a_node_that_left_is_kept():
    world = World([N0, N1])
    world.status(N0)
    world.status(N1)
    world.twins.forget(N0)
    world.twins.forget(N0)
    world.twins.sum_racks()
    assert world.status(N1).predicted_psu_stress_score == pytest.approx(1.2, abs=0.06)
    world.watts[N0] = None
    forgotten = world.status(N0).power_measurement.measured_node_power_w
    world.watts[N1] = None
    assert forgotten < world.status(N1).power_measurement.measured_node_power_w, "N1 counts with its last reading"


def test_racks_share_the_default_capacity():
    assert RackCapacities(10.0).of("any") == 10
    assert RackCapacities(10.0, {"r": 5.0}).of("r") == 5


def make_json(name, fields):
    merged = HARDWARE | fields
    merged["labels"] = {
        key: value for key, value in (HARDWARE["labels"] | fields.get("labels", {})).items() if value is not None
    }
    return msgspec.json.encode(make_node(name, **merged))


def test_a_twin_is_built_again_when_anything_that_it_shows_has_changed():
    world = World([N0])
    world.status()
    world.twins.sum_racks()
    before = world.status()
    assert world.status() is before
    changes = {
        "rack": lambda: setattr(world.room, "rack", 6000.0),
        "pue": lambda: setattr(world.room, "model", MeasuredPue(1000, 400)),
        "zone": lambda: world.set_node(labels={labels.COOLING_ZONE: "hot", labels.RACK: "small"}),
        "power": lambda: world.watts.update({N0: 350.0}),
        "caps": lambda: setattr(world, "cap", CapIntent(cpu_pct=60)),
        "hardware": lambda: world.set_node(cpu_sockets=1, labels={labels.COOLING_ZONE: "hot", labels.RACK: "small"}),
    }
    for what, change in changes.items():
        change()
        world.now += 1
        after = world.status()
        assert after != before, what
        before = after
    assert world.status(schedulable_class=SchedulableClass.ECO).schedulable_class == "eco"


def test_a_rack_whose_draw_moves_by_less_than_is_shown_leaves_a_twin_as_it_is():
    world = World([N0])
    world.room.rack = 6000.0
    before = world.status()
    world.room.rack = 6001.0
    assert world.status() is before


def test_the_power_of_the_whole_server_is_in_the_twin_beside_that_of_its_parts():
    world = World()
    world.write()
    world.server = SERVER
    assert world.is_due()
    written = world.write()
    assert (written.server_measurement, written.power_measurement.measured_node_power_w) == (SERVER, 300)
    world.server = SERVER.model_copy(update={"sampled_at": "2027-01-15T08:01:00Z"})
    world.now = 15
    assert not world.is_due()
    assert world.status().server_measurement == world.server
