import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.demand import WorkloadClass, workload_class
from joulie_core.pod import Pod
from joulie_sim.annotations import DURATION
from joulie_sim.workload.generator import Mix, generate
from joulie_sim.workload.item import pod_manifest
from joulie_sim.workload.load import Capacity, DurationBounds, fit_durations, offered_load

MIX = Mix(
    pods=300,
    window_s=120.0,
    cpu_milli=2_000_000,
    node_cpu_milli=64_000,
    gpu_resources={"nvidia.com/gpu": 60, "amd.com/gpu": 20},
)
SMALL = Mix(pods=20, window_s=60.0, cpu_milli=200_000, node_cpu_milli=32_000, gpu_resources={})


def test_the_same_seed_gives_the_same_workload():
    assert generate(MIX, seed=7) == generate(MIX, seed=7)
    assert generate(MIX, seed=7) != generate(MIX, seed=8)


def test_the_requested_numbers_are_exact():
    items = generate(MIX, seed=1)
    assert len(items) == 300
    assert sum(item.workload_class is WorkloadClass.PERFORMANCE for item in items) == 105
    assert sum(item.gpus > 0 for item in items) == 120


def test_items_arrive_in_order_within_the_window_under_distinct_names():
    items = generate(MIX, seed=2)
    arrivals = [item.arrives_s for item in items]
    assert arrivals == sorted(arrivals)
    assert arrivals[0] >= 0.0
    assert arrivals[-1] <= 120.0
    assert len({item.name for item in items}) == 300


def test_both_gpu_resources_are_requested():
    assert {item.gpu_resource for item in generate(MIX, seed=3) if item.gpus} == {"nvidia.com/gpu", "amd.com/gpu"}


def test_a_cluster_without_gpus_gets_no_gpu_pods():
    assert not any(item.gpus for item in generate(SMALL, seed=1))


def test_the_requested_load_is_offered():
    items = generate(MIX, seed=4)
    with_gpus, without = [item for item in items if item.gpus], [item for item in items if not item.gpus]
    assert offered_load(with_gpus, Capacity(2_000_000, 80), 120.0) == pytest.approx(0.5, abs=0.02)
    assert offered_load(without, Capacity(2_000_000, 0), 120.0) == pytest.approx(0.4, abs=0.02)


def test_no_cpu_pod_is_larger_than_half_a_node():
    assert max(item.cpu_milli for item in generate(MIX, seed=5) if not item.gpus) == 32_000


@given(st.integers(0, 1000), st.floats(0.05, 2.0), st.floats(5.0, 100.0))
def test_fitted_work_keeps_its_order_and_its_bounds(seed, load, longest_s):
    items = generate(SMALL, seed=seed)
    capacity, bounds = Capacity(200_000, 0), DurationBounds(longest_s=longest_s)
    fitted = fit_durations(items, capacity=capacity, window_s=60.0, load=load, bounds=bounds)
    assert all(5.0 <= item.work_s <= longest_s for item in fitted)
    ranks = sorted(range(20), key=lambda index: items[index].work_s)
    works = [fitted[index].work_s for index in ranks]
    assert works == sorted(works)
    assert offered_load(fitted, capacity, 60.0) <= load or all(item.work_s == 5.0 for item in fitted)


def test_a_pod_has_its_class_its_work_and_its_requests():
    item = next(
        item for item in generate(MIX, seed=1) if item.gpus and item.workload_class is WorkloadClass.PERFORMANCE
    )
    manifest = pod_manifest(item, workload="demo")
    annotations = manifest["metadata"]["annotations"]
    assert workload_class(Pod(name="p", annotations=annotations)) is WorkloadClass.PERFORMANCE
    assert float(annotations[DURATION]) == pytest.approx(item.work_s, abs=1e-3)
    requests = manifest["spec"]["containers"][0]["resources"]["requests"]
    assert requests[item.gpu_resource] == str(item.gpus)
    assert requests["cpu"] == f"{item.cpu_milli}m"
    assert manifest["spec"]["automountServiceAccountToken"] is False
