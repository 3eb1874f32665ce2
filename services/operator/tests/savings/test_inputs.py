"""Values of the estimate: what is not seen, too old or not in force is never a saving."""

import json
from types import SimpleNamespace

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from joulie_api.failures import Failures
from joulie_api.wire import decode_node
from joulie_core.hardware.inventory import Inventory
from joulie_core.kinds.node_twin import ServerMeasurement
from joulie_core.kinds.telemetry_profile import TelemetryProfileStatus
from joulie_core.savings.shadow_nodes import ShadowPod
from joulie_core.sleep_state import SleepState
from joulie_core.timestamps import rfc3339
from joulie_operator.cluster import Cluster, Eligibility, PodLoad
from joulie_operator.pods import PodSummary
from joulie_operator.savings.inputs import CapReport, capped_node, shadow_node, shadow_pod, sleeping_server
from joulie_testing.api import make_node

NOW_S, MAX_AGE_S = 2_000_000.0, 60.0
#: Two sockets of 280 W.
_CPUS = {"cpu_model": "AMD EPYC 7763", "cpu_sockets": 2, "cpu": 256}
_GPUS = {"gpus": 4, "gpu_model": "NVIDIA A100 80GB PCIe"}


def resolved(**fields):
    """Return a node and its hardware, as the operator sees them."""
    cluster = Cluster(
        Inventory.load(),
        pods=SimpleNamespace(is_stale=lambda: False),
        on_change=lambda _: None,
        failures=Failures(CollectorRegistry()),
    )
    node = decode_node(msgspec.json.encode(make_node("n1", **{**_CPUS, **fields})))
    cluster.on_node("n1", None, node)
    return node, cluster.hardware("n1")


def shadow(eligibility=Eligibility.ELIGIBLE, **fields):
    node, hardware = resolved(**fields)
    return shadow_node(node, hardware, eligibility)


def test_a_node_of_the_shadow_has_what_pods_may_request():
    found = shadow(memory="512Gi", **_GPUS, labels={"topology.kubernetes.io/zone": "z1"})
    assert (found.cpu_milli, found.memory_bytes, found.pods) == (256_000.0, 512 * 2.0**30, 110.0)
    assert (found.gpus, found.gpu_kind) == (4.0, "NVIDIA/1")
    assert found.zone == "/z1"
    assert found.open
    assert found.model.threads == 256.0


def test_gpus_that_are_shared_count_in_units_of_requests():
    shared = {"joulie.io/hw.gpu-count": "4", "nvidia.com/gpu.replicas": "4"}
    found = shadow(gpus=16, gpu_model="NVIDIA A100 80GB PCIe", labels=shared)
    assert (found.gpus, found.gpu_kind) == (16.0, "NVIDIA/4")


def test_a_node_that_is_not_managed_is_not_in_the_shadow():
    assert shadow(Eligibility.UNMANAGED) is None
    assert shadow(Eligibility.CORDONED) is not None


@pytest.mark.parametrize("fields", [{"cpu": "0"}, {"memory": "0"}, {"memory": "much"}, {"cpu": "much"}])
def test_a_node_whose_resources_cannot_be_read_is_not_in_the_shadow(fields):
    assert shadow(**fields) is None


def test_a_node_without_a_number_of_pods_is_not_in_the_shadow():
    node, hardware = resolved()
    del node.allocatable["pods"]
    assert shadow_node(node, hardware, Eligibility.ELIGIBLE) is None


def test_other_pods_come_to_no_node_that_is_cordoned_or_whose_hardware_is_unknown():
    assert not shadow(unschedulable=True).open
    unknown = shadow(cpu_model=None, cpu_sockets=None, cpu=2)
    node, _ = resolved()
    assert not shadow_node(node, None, Eligibility.ELIGIBLE).open
    assert shadow_node(node, None, Eligibility.ELIGIBLE).model is None
    assert unknown.open == (unknown.model is not None)


def test_a_pod_of_the_shadow_has_its_requests_and_stays_where_it_asks_to_be():
    assert shadow_pod(PodSummary("n1", True, 1.5, 2.0, 64.0, True)) == ShadowPod("n1", 1500.0, 64.0, 2.0, True)
    assert not shadow_pod(PodSummary("n1", False, 1.0, 0.0)).fixed
    assert shadow_pod(PodSummary(None, False, 1.0, 0.0)) is None


def sleeper(record, measurement=None, state="Asleep"):
    annotations = {} if record is None else {"joulie.io/sleep-record": record}
    node, _ = resolved(labels={"joulie.io/sleep-state": state} if state else None, annotations=annotations)
    return sleeping_server(node, measurement)


def record_of(**fields):
    return json.dumps({"state": "Asleep", "since": 100.0, "reason": "idle", "idleWatts": 150.0, **fields})


def reading(at_s):
    made = {"source": "redfish", "measuredServerPowerW": 12.0, "sampledAt": rfc3339(at_s)}
    return ServerMeasurement.model_validate(made)


def test_a_node_without_the_label_is_awake_whatever_its_record_says():
    assert sleeper(record_of(), state=None) is None


def test_a_sleeping_node_has_the_idle_power_of_its_record():
    found = sleeper(record_of(idleMeasured=True))
    assert (found.state, found.idle_watts, found.idle_measured, found.drawn_watts) == (
        SleepState.ASLEEP,
        150.0,
        True,
        None,
    )
    assert not sleeper(record_of()).idle_measured


@pytest.mark.parametrize("record", [None, "", "{", "[" * 100_000, record_of(idleWatts=-1), record_of(since="then")])
def test_a_record_that_cannot_be_read_leaves_the_idle_power_unknown(record):
    found = sleeper(record)
    assert (found.state, found.idle_watts, found.drawn_watts) == (SleepState.ASLEEP, None, None)


def test_only_a_reading_from_the_present_state_is_what_the_server_draws():
    assert sleeper(record_of(), reading(101.0)).drawn_watts == 12.0
    assert sleeper(record_of(), reading(100.0)).drawn_watts is None
    assert sleeper(record_of(), reading(99.0)).drawn_watts is None


def caps(*, cpu=None, gpu=None, power=None, age_s=0.0, load=None, **fields):
    control = {key: value for key, value in (("cpu", cpu), ("gpu", gpu)) if value is not None}
    status = {"control": control} if control else {}
    if power is not None:
        status["power"] = {**power, "updatedAt": rfc3339(NOW_S - age_s)}
    _, hardware = resolved(**fields)
    report = CapReport(TelemetryProfileStatus.model_validate(status), hardware, load or PodLoad())
    return capped_node(report, NOW_S, MAX_AGE_S)


def applied(watts=None, **fields):
    return {"result": "applied", **({} if watts is None else {"enforcedWatts": watts}), **fields}


def test_capped_cpus_have_the_cap_of_all_sockets_and_the_draw_of_now():
    (cpus,) = caps(cpu=applied(140), power={"cpuWatts": 250}, load=PodLoad(cpu_cores=256.0)).subsystems
    assert (cpus.cap_watts, cpus.drawn_watts) == (280.0, 250.0)
    assert cpus.idle_watts < cpus.natural_watts <= cpus.most_watts
    (idle,) = caps(cpu=applied(140), power={"cpuWatts": 250}).subsystems
    assert idle.natural_watts == idle.idle_watts


@pytest.mark.parametrize(("age_s", "drawn_watts"), [(60.0, 250.0), (61.0, None), (-60.0, 250.0), (-61.0, None)])
def test_a_reading_that_is_too_old_or_from_the_future_is_unknown(age_s, drawn_watts):
    (cpus,) = caps(cpu=applied(140), power={"cpuWatts": 250}, age_s=age_s).subsystems
    assert cpus.drawn_watts == drawn_watts


def test_a_reading_without_a_time_is_unknown():
    _, hardware = resolved()
    status = TelemetryProfileStatus.model_validate({"control": {"cpu": applied(140)}, "power": {"cpuWatts": 250}})
    (cpus,) = capped_node(CapReport(status, hardware, PodLoad()), NOW_S, MAX_AGE_S).subsystems
    assert cpus.drawn_watts is None


@pytest.mark.parametrize(
    "cpu",
    [
        None,
        applied(280),
        applied(279.9),
        applied(),
        applied(throttlePct=0),
        applied(140, result="error"),
        applied(140, result="blocked"),
    ],
)
def test_without_a_limit_in_force_no_cap_saves(cpu):
    assert caps(cpu=cpu, power={"cpuWatts": 250}) is None


def test_a_throttle_of_unknown_watts_is_unknown():
    assert caps(cpu=applied(throttlePct=40)).subsystems == (None,)


def test_capped_gpus_have_the_cap_of_all_of_them_and_what_held_ones_would_draw():
    def gpus(load):
        (found,) = caps(gpu=applied(150), power={"gpuWatts": 500}, load=load, **_GPUS).subsystems
        return found

    two = gpus(PodLoad(gpus=2.0))
    assert (two.cap_watts, two.drawn_watts) == (600.0, 500.0)
    assert gpus(PodLoad()).natural_watts == pytest.approx(two.idle_watts)
    # Never more are held than there are.
    assert gpus(PodLoad(gpus=9.0)).natural_watts == gpus(PodLoad(gpus=4.0)).natural_watts
    four = gpus(PodLoad(gpus=4.0))
    assert two.natural_watts == pytest.approx((two.idle_watts + four.natural_watts) / 2)
    assert four.natural_watts <= four.most_watts


@pytest.mark.parametrize("gpu", [applied(300), applied(299.8), applied(), applied(150, result="error")])
def test_without_a_limit_in_force_no_gpu_is_capped(gpu):
    assert caps(gpu=gpu, power={"gpuWatts": 500}, **_GPUS) is None


def test_both_subsystems_count_where_both_are_capped():
    found = caps(cpu=applied(140), gpu=applied(150), power={"cpuWatts": 250, "gpuWatts": 500}, **_GPUS)
    assert [each.drawn_watts for each in found.subsystems] == [250.0, 500.0]
