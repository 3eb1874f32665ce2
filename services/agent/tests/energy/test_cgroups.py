"""CPU time from cgroups, as both drivers of the kubelet and others name them."""

import pytest

from joulie_agent.energy.cgroups import MOST_BYTES, MOST_PODS, NoCgroups, read_cpu_times
from joulie_core.attribution.cpu_times import CpuTimes

FIRST = "11111111-2222-3333-4444-555555555555"
SECOND = "aaaaaaaa-2222-3333-4444-555555555555"
THIRD = "bbbbbbbb-2222-3333-4444-555555555555"
STATIC = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def root(tmp_path):
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    (tmp_path / "cpu.stat").write_text("usage_usec 90000000\nuser_usec 1\n")
    return tmp_path


def put(root, path, used_us=1_500_000, text=None):
    directory = root / path
    directory.mkdir(parents=True)
    (directory / "cpu.stat").write_text(text if text is not None else f"usage_usec {used_us}\n")


def name(uid):
    return uid.replace("-", "_")


@pytest.mark.parametrize("parent", ["kubepods", "kubelet.slice/kubelet-kubepods"])
def test_pods_of_the_systemd_driver_are_found_in_every_class(root, parent):
    prefix = parent.rpartition("/")[2]
    put(root, f"{parent}.slice/{prefix}-pod{name(FIRST)}.slice", 1_000_000)
    put(root, f"{parent}.slice/{prefix}-burstable.slice/{prefix}-burstable-pod{name(SECOND)}.slice", 2_000_000)
    put(root, f"{parent}.slice/{prefix}-besteffort.slice/{prefix}-besteffort-pod{name(THIRD)}.slice", 3_000_000)
    assert read_cpu_times(root) == CpuTimes(90.0, {FIRST: 1.0, SECOND: 2.0, THIRD: 3.0})


@pytest.mark.parametrize("parent", ["kubepods", "kubelet/kubepods"])
def test_pods_of_the_cgroupfs_driver_are_found_in_every_class(root, parent):
    put(root, f"{parent}/pod{FIRST}", 1_000_000)
    put(root, f"{parent}/burstable/pod{SECOND}", 2_000_000)
    put(root, f"{parent}/besteffort/pod{STATIC}", 3_000_000)
    assert read_cpu_times(root) == CpuTimes(90.0, {FIRST: 1.0, SECOND: 2.0, STATIC: 3.0})


@pytest.mark.parametrize(
    "hostile",
    [
        "kubepods/pod",
        "kubepods/pod..",
        "kubepods/podx" + FIRST,
        "kubepods/pod" + FIRST.upper().replace("1", "A"),
        "kubepods/pod" + FIRST + ".scope",
        "kubepods/pod" + FIRST + "\n",
        "kubepods/burstable/deeper/pod" + FIRST,
        "pod" + FIRST,
    ],
)
def test_names_that_are_no_pods_are_passed_over(root, hostile):
    put(root, f"kubepods/pod{SECOND}", 1_000_000)
    put(root, hostile)
    assert read_cpu_times(root) == CpuTimes(90.0, {SECOND: 1.0})


def test_a_link_is_no_cgroup(root, tmp_path):
    put(root, f"kubepods/pod{SECOND}", 1_000_000)
    (root / f"kubepods/pod{FIRST}").symlink_to(root / f"kubepods/pod{SECOND}")
    assert read_cpu_times(root).pods == {SECOND: 1.0}


def test_one_uid_in_two_directories_is_of_a_pod_whose_time_is_unknown(root):
    put(root, f"kubepods/pod{FIRST}")
    put(root, f"kubepods/burstable/pod{FIRST}")
    assert read_cpu_times(root) == CpuTimes(90.0, {FIRST: None})


@pytest.mark.parametrize("text", ["", "user_usec 5\n", "usage_usec x\n", "#" * (MOST_BYTES + 1) + "\nusage_usec 5\n"])
def test_a_file_that_tells_nothing_or_is_too_long_leaves_the_pod_unknown(root, text):
    put(root, f"kubepods/pod{FIRST}", text=text)
    assert read_cpu_times(root).pods == {FIRST: None}


def test_pods_past_the_bound_are_left_out_and_the_reading_says_so(root):
    for number in range(MOST_PODS + 1):
        put(root, f"kubepods/pod{number:08x}-2222-3333-4444-555555555555")
    found = read_cpu_times(root)
    assert (len(found.pods), found.complete) == (MOST_PODS, False)


def test_a_container_without_the_nodes_cgroups_has_the_reason(tmp_path):
    found = read_cpu_times(tmp_path)
    assert isinstance(found, NoCgroups)
    assert "cgroup hierarchy of version 2" in found.message


def test_a_hierarchy_without_a_kubelet_has_the_reason(root):
    found = read_cpu_times(root)
    assert isinstance(found, NoCgroups)
    assert "no cgroup of the kubelet" in found.message


def test_an_old_kernel_without_the_nodes_time_has_the_reason(root):
    put(root, f"kubepods/pod{FIRST}")
    (root / "cpu.stat").unlink()
    found = read_cpu_times(root)
    assert isinstance(found, NoCgroups)
    assert "usage_usec" in found.message
