"""Pod demand by Kubernetes' own rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.demand import WorkloadClass
from joulie_core.pod import Container, Pod
from joulie_core.powerest.pod_demand import PodDemand, pod_demand
from joulie_core.quantity import QuantityError

STANDARD = WorkloadClass.STANDARD
PERFORMANCE = WorkloadClass.PERFORMANCE


def container(cpu=None, *, sidecar=False, limits=None, **requests):
    wanted = dict(requests) if cpu is None else {"cpu": cpu, **requests}
    return Container(requests=wanted, limits=limits or {}, sidecar=sidecar)


def cores(*containers, init=(), overhead=None, workload_class=STANDARD):
    pod = Pod("p", containers=tuple(containers), init_containers=tuple(init), overhead=overhead or {})
    return pod_demand(pod, workload_class).cpu_cores


def test_requests_of_all_containers_are_summed():
    assert cores(container("1500m"), container("2")) == 3.5


def test_a_limit_stands_in_for_a_request_that_is_not_made():
    assert cores(container(limits={"cpu": "3"})) == 3


def test_a_request_wins_over_a_limit():
    assert cores(container("1", limits={"cpu": "8"})) == 1


@pytest.mark.parametrize(("held", "expected"), [(("4",), 4), (("1", "3"), 3), (("1", "1"), 2), ((), 2)])
def test_what_a_container_holds_counts_where_it_is_more_than_it_requests(held, expected):
    resized = Container(requests={"cpu": "2"}, held=tuple({"cpu": each} for each in held))
    assert cores(resized) == expected
    assert cores(init=[resized]) == expected


def test_the_largest_init_container_counts_where_it_exceeds_the_running_sum():
    assert cores(container("1"), container("1"), init=[container("5"), container("4")]) == 5


def test_an_init_container_below_the_running_sum_does_not_count():
    assert cores(container("1"), container("1"), init=[container("2")]) == 2


def test_a_sidecar_is_added_to_the_containers():
    assert cores(container("2"), init=[container("1", sidecar=True)]) == 3


def test_an_init_container_runs_beside_the_sidecars_started_before_it():
    init = [container("1", sidecar=True), container("4"), container("2", sidecar=True), container("2")]
    assert cores(container("1"), init=init) == 5


def test_an_init_container_does_not_run_beside_a_sidecar_started_after_it():
    assert cores(container("1"), init=[container("4"), container("2", sidecar=True)]) == 4


def test_overhead_is_added():
    assert cores(container("1"), overhead={"cpu": "250m"}) == 1.25


@pytest.mark.parametrize(("workload_class", "expected"), [(STANDARD, 0.25), (PERFORMANCE, 0.5)])
def test_a_pod_without_any_cpu_request_counts_as_a_small_share(workload_class, expected):
    assert cores(container(memory="1Gi"), workload_class=workload_class) == expected


def test_a_cpu_request_of_zero_is_no_request():
    assert cores(container("0")) == 0.25


def test_overhead_comes_on_top_of_the_small_share():
    assert cores(container(), overhead={"cpu": "1"}) == 1.25


def test_a_pod_without_containers_counts_as_a_small_share():
    assert cores() == 0.25


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "amd.com/gpu"])
def test_gpus_of_either_vendor_are_counted_from_limits(resource):
    pod = Pod("p", containers=(Container(limits={resource: "4"}), Container(limits={resource: "4"})))
    assert pod_demand(pod, STANDARD).gpus == 8


def test_a_gpu_that_only_an_init_container_wants_counts_once():
    gpu = {"nvidia.com/gpu": "1"}
    pod = Pod("p", containers=(Container(limits=gpu),), init_containers=(Container(limits=gpu),))
    assert pod_demand(pod, STANDARD).gpus == 1


def test_memory_is_summed_in_bytes():
    pod = Pod("p", containers=(container("1", memory="1Gi"), container("1", memory="500M")))
    assert pod_demand(pod, PERFORMANCE) == PodDemand(2.0, 0.0, 2**30 + 500e6, PERFORMANCE)


def test_a_negative_quantity_frees_nothing():
    assert cores(container("-4"), container("1")) == 1


def test_a_quantity_that_cannot_be_read_is_named():
    with pytest.raises(QuantityError, match="four"):
        cores(container("four"))


@pytest.mark.parametrize(
    ("requests", "limits", "containers", "expected"),
    [
        ({"cpu": "8"}, {}, ("1", "1"), 8),
        ({"cpu": "3"}, {}, (), 3),
        # The API server defaults a request that is not made: to the containers' sum, else to the pod's limit.
        ({}, {"cpu": "8"}, ("1", "1"), 2),
        ({}, {"cpu": "8"}, (), 8),
        ({"memory": "1Gi"}, {}, ("1", "1"), 2),
        ({"cpu": "1"}, {"cpu": "8"}, ("4",), 1),
    ],
)
def test_a_request_of_the_whole_pod_stands_for_those_of_its_containers(requests, limits, containers, expected):
    running = tuple(container(cpu) for cpu in containers) or (container(),)
    pod = Pod("p", requests=requests, limits=limits, containers=running, overhead={"cpu": "500m"})
    assert pod_demand(pod, STANDARD).cpu_cores == expected + 0.5


def test_memory_of_the_whole_pod_stands_for_that_of_its_containers():
    pod = Pod("p", requests={"memory": "4Gi"}, containers=(container("1", memory="1Gi"),))
    assert pod_demand(pod, STANDARD).memory_bytes == 4 * 2**30


def test_gpus_are_requested_by_containers_only():
    pod = Pod("p", limits={"nvidia.com/gpu": "8"}, containers=(container(limits={"nvidia.com/gpu": "1"}),))
    assert pod_demand(pod, STANDARD).gpus == 1


@pytest.mark.parametrize(
    ("resource", "share"),
    [
        ("nvidia.com/gpu", 1),
        ("amd.com/gpu", 1),
        ("gpu.intel.com/i915", 1),
        ("gpu.intel.com/xe", 1),
        ("nvidia.com/mig-1g.5gb", 1 / 7),
        ("nvidia.com/mig-3g.40gb", 3 / 7),
        ("nvidia.com/mig-7g.80gb", 1),
        ("nvidia.com/mig-1g.10gb.me", 1 / 7),
        ("nvidia.com/mig-1c.3g.20gb", 1 / 7),
        # Profiles of GPUs with four slices, and one that exists on either kind.
        ("nvidia.com/mig-1g.6gb", 1 / 4),
        ("nvidia.com/mig-2g.12gb", 1 / 2),
        ("nvidia.com/mig-4g.24gb", 1),
        ("nvidia.com/mig-1g.24gb", 1 / 4),
        ("nvidia.com/mig-1g.5gb.shared", 1 / 7),
        # How many share it, the node says and not the pod.
        ("nvidia.com/gpu.shared", 1),
        ("amd.com/cpx_nps4", 1 / 8),
        # Of unknown size: as a whole GPU.
        ("nvidia.com/mig-9x.5gb", 1),
        ("amd.com/zpx_nps2", 1),
        ("gpu.intel.com/i915_monitoring", 0),
        ("example.com/fpga", 0),
    ],
)
def test_an_extended_resource_counts_as_the_most_of_a_gpu_that_it_may_be(resource, share):
    pod = Pod("p", containers=(Container(limits={resource: "2"}),))
    assert pod_demand(pod, STANDARD).gpus == pytest.approx(2 * share)


def test_gpus_of_all_resources_are_added_up_and_the_start_up_phase_counts_per_resource():
    running = Container(limits={"nvidia.com/gpu": "1", "nvidia.com/mig-1g.5gb": "7"})
    starting = Container(limits={"nvidia.com/gpu": "2"})
    pod = Pod("p", containers=(running,), init_containers=(starting,))
    assert pod_demand(pod, STANDARD).gpus == pytest.approx(3)


REQUESTS = st.builds(lambda m: f"{m}m", st.integers(0, 10_000))


@given(st.permutations(["100m", "2", "1500m", "0"]), st.lists(REQUESTS, max_size=3))
def test_the_order_of_containers_does_not_matter(shuffled, init):
    starting = [container(cpu) for cpu in init]
    assert cores(*map(container, shuffled), init=starting) == cores(
        container("100m"), container("2"), container("1500m"), container("0"), init=starting[::-1]
    )


@given(st.lists(REQUESTS, min_size=1, max_size=4), REQUESTS)
def test_another_container_never_lowers_the_demand(running, another):
    # The small share of a pod without any request may exceed a tiny request.
    before = cores(*map(container, running))
    assert cores(*map(container, [*running, another])) >= (0 if before == 0.25 else before)
