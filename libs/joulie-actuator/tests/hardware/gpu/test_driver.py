"""What is said of a GPU of which nothing is known, and by which names."""

from dataclasses import asdict

from joulie_actuator.hardware.gpu.driver import MW_PER_WATT, GpuDeviceInfo, Vendor, clock_key, limit_key


def test_all_that_a_driver_does_not_report_is_unknown():
    assert asdict(GpuDeviceInfo("GPU-a", 3, Vendor.AMD)) == {
        "uuid": "GPU-a",
        "index": 3,
        "vendor": "AMD",
        "model": "",
        **dict.fromkeys(("min_mw", "max_mw", "default_mw", "current_mw", "enforced_mw", "lowest_mhz", "highest_mhz")),
        "partitioned": None,
        "partition_modes": (),
        "pci_address": "",
        "minor": None,
        "partition_uuids": (),
        "partition_names": (),
        "failure": None,
    }


def test_vendors_are_spelled_as_in_the_inventory():
    assert [vendor.value for vendor in Vendor] == ["NVIDIA", "AMD"]


def test_knobs_are_known_by_the_uuid():
    assert (limit_key("GPU-a"), clock_key("GPU-a")) == ("gpu/GPU-a/power_limit_mw", "gpu/GPU-a/graphics_clock_mhz")
    assert 700 * MW_PER_WATT == 700_000
