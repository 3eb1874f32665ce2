import pytest

from joulie_core.hardware.inventory import Inventory, inventory_data
from joulie_core.hardware.work_rates import WorkRate, WorkRates

INVENTORY = Inventory.load()


def thread_rate(raw):
    match = INVENTORY.find_cpu(raw)
    assert match is not None
    return match.spec.work_per_thread


def gpu_rate(raw):
    match = INVENTORY.find_gpu(raw)
    assert match is not None
    return match.spec.work_per_gpu


@pytest.mark.parametrize(
    ("raw", "specrate", "threads", "tolerance"),
    # Medians of SPECrate2017_int_base of two sockets.
    [
        ("AMD EPYC 7763", 816.5, 256, 0.005),
        ("AMD EPYC 7742", 667, 256, 0.005),
        ("AMD EPYC 9534", 1200, 256, 0.005),
        ("AMD EPYC 9754", 1860, 512, 0.005),
        ("AMD EPYC 9965", 3115, 768, 0.005),
        ("Intel(R) Xeon(R) Gold 6148 CPU", 203, 80, 0.01),
        ("Intel(R) Xeon(R) Platinum 8280 CPU", 336, 112, 0.005),
        ("Intel(R) Xeon(R) Platinum 8480+", 926, 224, 0.005),
        ("Intel(R) Xeon(R) 6980P", 2435, 512, 0.005),
        # One thread a core.
        ("Intel(R) Xeon(R) 6780E", 1380, 288, 0.005),
    ],
)
def test_a_threads_rate_is_the_published_throughput_over_threads_and_over_epyc_7763(raw, specrate, threads, tolerance):
    assert thread_rate(raw).value == pytest.approx(specrate / threads / (816.5 / 256), abs=tolerance)


def test_every_cpu_of_the_inventory_has_a_rate_and_a_band_of_a_quarter_around_it():
    for spec in INVENTORY.cpus.values():
        rate = spec.work_per_thread
        assert rate is not None, spec.key
        assert (rate.low, rate.high) == pytest.approx((0.75 * rate.value, 1.25 * rate.value))


def test_a_model_has_its_rate_of_integer_work_with_and_without_one_of_floating_point_work_beside_it():
    assert INVENTORY.cpus["amd-epyc-9754"].work_per_thread.value == 1.14
    assert INVENTORY.cpus["amd-epyc-8534p"].work_per_thread.value == 1.16


@pytest.mark.parametrize(
    ("raw", "value", "low", "high"),
    [
        ("NVIDIA A100-SXM4-80GB", 1.0, 1.0, 1.0),
        ("Tesla T4", 0.14, 0.12, 0.16),
        ("Tesla V100-SXM2-16GB", 0.43, 0.19, 0.55),
        ("NVIDIA H100 80GB HBM3", 1.95, 1.2, 2.6),
        # Chains over H100 SXM, and over H200.
        ("NVIDIA H200", 1.95 * 1.10, 1.95 * 1.00, 1.95 * 1.29),
        ("NVIDIA B200", 1.95 * 1.10 * 1.635, 1.95 * 1.10 * 1.46, 1.95 * 1.10 * 3.1),
        ("AMD Instinct MI300X", 1.95 * 1.10 * 0.80, 1.95 * 1.10 * 0.77, 1.95 * 1.10 * 0.90),
    ],
)
def test_a_gpus_rate_is_the_median_of_published_ratios_and_its_band_their_range(raw, value, low, high):
    rate = gpu_rate(raw)
    assert (rate.value, rate.low, rate.high) == pytest.approx((value, low, high))


def test_gpus_without_a_published_figure_have_no_rate():
    unknown = {spec.model for spec in INVENTORY.gpus.values() if spec.work_per_gpu is None}
    assert unknown == {
        "NVIDIA P100 PCIe",
        "NVIDIA P100 SXM2",
        "NVIDIA V100 PCIe",
        "NVIDIA A100 SXM4 40GB",
        "NVIDIA H200 NVL",
        "AMD Instinct MI210",
        "AMD Instinct MI250X",
    }


def test_every_published_rate_is_of_a_model_of_the_inventory():
    rates = WorkRates.read(inventory_data()["work_rates"])
    assert rates.gpus.keys() <= {spec.model for spec in INVENTORY.gpus.values()}
    numbers = {(spec.generation, spec.model.rpartition(" ")[2]) for spec in INVENTORY.cpus.values()}
    assert rates.threads.keys() <= numbers


def test_a_generic_model_has_no_rate_and_a_relative_has_that_of_the_model_that_stands_for_it():
    assert thread_rate("AMD EPYC 4584PX 16-Core Processor") is None
    assert gpu_rate("NVIDIA Some New Board") is None
    assert thread_rate("AMD EPYC 7B13") == INVENTORY.cpus["amd-epyc-7713"].work_per_thread
    assert gpu_rate("NVIDIA A10G") == gpu_rate("NVIDIA A10")


def test_without_published_figures_there_is_no_rate():
    assert WorkRates.read({}) == WorkRates({}, {})


def test_a_single_ratio_is_its_own_band():
    rates = WorkRates.read({"gpu": [{"models": ["one"], "ratios": [2.0]}]})
    assert rates.gpus == {"one": WorkRate(2.0, 2.0, 2.0)}
