"""Values of a node for the decision: nothing unknown becomes a number."""

from types import SimpleNamespace

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from joulie_api.failures import Failures
from joulie_api.wire import decode_node
from joulie_core.hardware.inventory import Inventory
from joulie_core.kinds import NodeHardwareStatus, NodeTwinStatus
from joulie_core.kinds.node_twin import ServerMeasurement
from joulie_core.timestamps import rfc3339
from joulie_operator.cluster import Cluster
from joulie_operator.pods import PodSummary
from joulie_operator.power_domains.inputs import DomainSight, DrawnReading
from joulie_operator.power_domains.rest import RestTracker
from joulie_testing.api import make_node, make_node_hardware

_CPU = {
    "rawModel": "AMD EPYC 7763 64-Core Processor",
    "model": "AMD EPYC 7763",
    "vendor": "amd",
    "sockets": 2,
    "totalCores": 128,
    "threads": 256,
    "capRange": {"minWattsPerSocket": 100, "maxWattsPerSocket": 280},
}
_ABLE = {"cpuControl": True, "gpuControl": True}


class Known:
    """One node of the cluster, with what is known of it."""

    def __init__(self, *, capabilities=_ABLE, gpu=None, reported=True, managed=True, labels=None):
        wire = make_node("n1", cpu=256, labels=labels)
        self.node = decode_node(msgspec.json.encode({**wire, "metadata": {**wire["metadata"], "uid": "u1"}}))
        status = make_node_hardware(
            "n1", cpu=_CPU, gpu=gpu or {"present": False}, status={"capabilities": capabilities}
        )
        self.twin = None
        self.cluster = Cluster(
            Inventory.load(),
            pods=SimpleNamespace(is_stale=lambda: False),
            on_change=lambda _: None,
            failures=Failures(CollectorRegistry()),
        )
        if managed:
            self.cluster.on_node("n1", None, self.node)
        hardware = NodeHardwareStatus.model_validate(status["status"])
        store = {}
        if reported:
            self.cluster.on_hardware("n1", hardware)
            store["n1"] = SimpleNamespace(model=SimpleNamespace(status=hardware))
        self.server = None
        rests = RestTracker(lambda: self.now_s)
        self.now_s = 1_800_000_000.0
        self.sight = DomainSight(self.cluster, self, store, lambda _: self.server, rests)

    def latest(self, name):
        assert name == "n1"
        return self.twin

    def draws(self, watts, quality):
        power = {"source": "agent", "quality": quality}
        if watts is not None:
            power["measuredNodePowerW"] = watts
        self.twin = NodeTwinStatus.model_validate({"powerMeasurement": power})

    def server_draws(self, watts):
        self.now_s += 60.0
        found = {"source": "redfish", "measuredServerPowerW": watts, "sampledAt": rfc3339(self.now_s)}
        self.server = ServerMeasurement.model_validate(found)

    def runs(self, cores):
        self.cluster.on_pod("p", None, PodSummary("n1", False, cores, 0.0))

    @property
    def found(self):
        return self.sight.node(self.node)


def watts(known):
    budget = known.found.budget
    return tuple(None if each is None else each / 1000 for each in (budget.max_mw, budget.min_mw))


def test_highest_and_lowest_power_are_those_of_the_hardware():
    known = Known()
    assert watts(known) == (560, 200)
    assert (known.found.budget.name, known.found.budget.identity) == ("n1", "u1/")


def test_a_node_that_is_not_managed_or_was_not_read_is_unknown():
    assert watts(Known(managed=False)) == (None, None)
    assert Known(managed=False).found.drawn.watts is None
    assert watts(Known(reported=False)) == (None, None)


_STATED = {"joulie.io/hw.cpu-model": "AMD EPYC 7763", "joulie.io/hw.cpu-sockets": "2", "joulie.io/hw.cpu-cores": "128"}


@pytest.mark.parametrize(
    ("labels", "highest"),
    [
        (_STATED | {"joulie.io/hw.gpu-count": "0"}, 560),
        # Nothing says that there are no GPUs.
        (_STATED, None),
        # A model that is not in the inventory, and a count without a model.
        (_STATED | {"joulie.io/hw.gpu-count": "0", "joulie.io/hw.cpu-model": "CPU of 2040"}, None),
        (_STATED | {"joulie.io/hw.gpu-count": "8"}, None),
    ],
)
def test_hardware_that_labels_state_counts_and_what_is_inferred_does_not(labels, highest):
    assert watts(Known(reported=False, labels=labels)) == (highest, None)


def test_a_part_without_control_counts_with_its_highest_power():
    assert watts(Known(capabilities={"cpuControl": False, "gpuControl": True})) == (560, 560)
    assert watts(Known(capabilities=None)) == (560, None)


def test_a_node_that_is_reserved_cannot_be_lowered():
    assert watts(Known(labels={"joulie.io/reserved": "true"})) == (560, None)


@pytest.mark.parametrize(("control", "lowest"), [(True, 200 + 8 * 200), (False, 200 + 8 * 700)])
def test_gpus_are_in_both_sums(control, lowest):
    gpu = {
        "present": True,
        "rawModel": "NVIDIA H100 80GB HBM3",
        "model": "NVIDIA H100 80GB HBM3",
        "vendor": "nvidia",
        "count": 8,
        "capRangePerGpu": {"minWatts": 200, "maxWatts": 700},
    }
    assert watts(Known(gpu=gpu, capabilities={"cpuControl": True, "gpuControl": control})) == (560 + 8 * 700, lowest)


@pytest.mark.parametrize(
    ("quality", "drawn", "seen"),
    [("measured", 321.5, (321.5, True)), ("modelled", 200.0, (200.0, False)), ("unknown", None, (None, False))],
)
def test_what_a_node_draws_is_known_as_its_twin_knows_it(quality, drawn, seen):
    known = Known()
    assert known.found.drawn.watts is None
    known.draws(drawn, quality)
    assert (known.found.drawn.watts, known.found.drawn.measured) == seen


def test_a_node_wants_what_its_pods_request_without_caps_and_not_less_than_it_draws():
    known = Known()
    idle = known.found.budget.demand_mw
    known.runs(256.0)
    busy = known.found.budget.demand_mw
    assert 0 < idle < busy <= 560_000
    known.draws(559.5, "measured")
    assert known.found.budget.demand_mw == max(busy, 559_500)


def test_a_node_is_told_apart_by_whether_it_runs_performance_pods():
    known = Known()
    known.runs(1.0)
    assert not known.found.performance
    known.cluster.on_pod("train", None, PodSummary("n1", True, 1.0, 0.0))
    assert known.found.performance
    assert not Known(managed=False).found.performance


def test_a_server_draws_what_its_bmc_reads_and_else_its_devices_and_the_middle_of_its_rest():
    known = Known()
    assert known.found.server_drawn == DrawnReading(None)
    known.draws(200.0, "measured")
    found = known.found
    assert found.drawn == DrawnReading(200.0, measured=True)
    assert not found.server_drawn.measured
    assert found.server_drawn.watts == 200.0 + (found.rest.mw + found.rest.least_mw) / 2000
    known.server_draws(333.0)
    assert known.found.server_drawn == DrawnReading(333.0, measured=True)
    assert known.found.drawn == DrawnReading(200.0, measured=True)


def test_without_a_bmc_again_a_rest_that_was_measured_is_added():
    known = Known()
    known.draws(200.0, "measured")
    for _ in range(4):
        known.server_draws(333.0)
        assert known.found.server_drawn.watts == 333.0
    known.server = None
    found = known.found
    assert found.rest.measured
    assert found.server_drawn == DrawnReading(200.0 + found.rest.mw / 1000)


def test_a_node_that_was_not_read_has_no_rest_and_one_that_is_gone_begins_anew():
    assert Known(managed=False).found.rest.mw is None
    known = Known()
    known.draws(200.0, "measured")
    for _ in range(4):
        known.server_draws(333.0)
        known.found  # noqa: B018 - it is read
    known.sight.retain([])
    assert not known.found.rest.measured
