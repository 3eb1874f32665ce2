import pytest

from joulie_containers.resources.usage import UsageReader, cgroup_path


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("/kubepods/burstable/pod1/abc", "kubepods/burstable/pod1/abc"),
        ("/kubepods/podX/", "kubepods/podX"),
        ("kubepods.slice:abc", "kubepods.slice:abc"),
        (
            "kubepods-burstable-pod1_2.slice:cri-containerd:abc",
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/cri-containerd-abc.scope",
        ),
        ("kubepods.slice:crio:abc", "kubepods.slice/crio-abc.scope"),
    ],
)
def test_the_name_of_a_cgroup_leads_to_its_directory(name, path):
    assert cgroup_path(name) == path


class Host:
    def __init__(self, root):
        self.root = root

    def unified(self, container, usage_us):
        directory = self.root / "sys/fs/cgroup" / container
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "cpu.stat").write_text(f"nr_periods 3\nusage_usec {usage_us}\nuser_usec 1\n")

    def older(self, container, usage_ns):
        directory = self.root / "sys/fs/cgroup/cpuacct" / container
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "cpuacct.usage").write_text(f"{usage_ns}\n")


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


NAMES = {"a": "/a", "b": "/b"}


def test_usage_is_the_difference_of_two_readings(host):
    reader = UsageReader(host.root)
    host.unified("a", 1_000_000)
    host.older("b", 1_000_000_000)
    assert reader.read(NAMES, 100.0) == {}
    host.unified("a", 4_000_000)
    host.older("b", 1_500_000_000)
    assert reader.read(NAMES, 102.0) == {"a": 1500, "b": 250}


def test_a_container_that_cannot_be_read_or_was_not_before_is_unknown(host):
    reader = UsageReader(host.root)
    host.unified("a", 1_000_000)
    reader.read(NAMES, 0.0)
    host.unified("a", 2_000_000)
    host.unified("b", 9_000_000)
    assert reader.read(NAMES, 1.0) == {"a": 1000}
    assert reader.read({"b": "/b"}, 1.0) == {}, "no time has passed"
    host.unified("b", 1_000_000)
    assert reader.read({"b": "/b"}, 2.0) == {}, "the counter has started anew"


def test_a_container_that_uses_nothing_is_measured_as_nothing(host):
    reader = UsageReader(host.root)
    host.unified("a", 1_000_000)
    reader.read(NAMES, 0.0)
    assert reader.read(NAMES, 1.0) == {"a": 0}


def test_usage_is_exact_over_a_long_time(host):
    reader = UsageReader(host.root)
    host.unified("a", 0)
    host.older("b", 0)
    reader.read(NAMES, 0.0)
    host.unified("a", 1_000_000_000_000)
    host.older("b", 1_000_000_000_000_000)
    assert reader.read(NAMES, 1000.0) == {"a": 1_000_000, "b": 1_000_000}


def test_nanoseconds_of_the_older_hierarchy_count_as_whole_microseconds(host):
    reader = UsageReader(host.root)
    host.older("b", 0)
    reader.read(NAMES, 0.0)
    host.older("b", 1999)
    assert reader.read(NAMES, 0.001) == {"b": 1}


def test_a_file_without_the_usage_is_unknown(host):
    reader = UsageReader(host.root)
    host.unified("a", 0)
    (host.root / "sys/fs/cgroup/a/cpu.stat").write_text("user_usec 1\n")
    assert reader.read(NAMES, 0.0) == {}
    assert reader.read(NAMES, 1.0) == {}
