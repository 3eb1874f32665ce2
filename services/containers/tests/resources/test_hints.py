import pytest

from joulie_actuator.hardware.sysfs import SysfsTree
from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_containers.resources.hints import HintSource
from joulie_core.containers.container import TopologyHint
from joulie_testing.agent.host_files import put_host
from joulie_testing.core.machines import MachineShape


@pytest.fixture
def source(tmp_path):
    topology = MachineShape(packages=2, cores_per_node=4).topology()
    put_host(tmp_path, topology)
    device = tmp_path / "sys/devices/pci0000:00/0000:00:02.0"
    (device / "gpu").mkdir(parents=True)
    (device / "numa_node").write_text("1\n")
    characters = tmp_path / "sys/dev/char"
    characters.mkdir(parents=True)
    (characters / "195:0").symlink_to("../../devices/pci0000:00/0000:00:02.0/gpu")
    return HintSource(SysfsTree(tmp_path / "sys"), topology)


def device(path, major, kind="c"):
    return nri.LinuxDevice(path=path, type=kind, major=major, minor=0)


def container(*devices, mounts=()):
    return nri.Container(linux=nri.LinuxContainer(devices=devices), mounts=[nri.Mount(source=each) for each in mounts])


def test_a_device_hints_at_what_is_close_to_it(source):
    hints = source.hints(container(device("/dev/nvidia0", 195), device("/dev/null", 1)))
    assert hints == (TopologyHint(provider="device:/dev/nvidia0", cpus="4-7", nodes="1"),)


def test_a_mounted_path_of_sysfs_hints_at_what_is_close_to_it(source):
    mounts = ["/sys/devices/pci0000:00/0000:00:02.0", "/var/lib/data", "tmpfs"]
    (hint,) = source.hints(container(mounts=mounts))
    assert (hint.provider, hint.nodes) == (f"mount:{mounts[0]}", "1")


def test_the_devices_of_a_whole_machine_are_no_hint(source):
    assert source.hints(container(*[device("/dev/nvidia0", 195)] * 65)) == ()


def test_an_unknown_kind_of_device_is_no_hint(source):
    assert source.hints(container(device("/dev/pipe", 195, "p"))) == ()


def test_devices_of_blocks_and_characters_are_told_apart(source, tmp_path):
    blocks = tmp_path / "sys/dev/block"
    blocks.mkdir(parents=True)
    (blocks / "8:0").symlink_to("../../devices/pci0000:00/0000:00:02.0/gpu")
    hints = source.hints(container(device("/dev/sda", 8, "b"), device("/dev/x", 8, "c"), device("/dev/y", 195, "u")))
    assert [each.provider for each in hints] == ["device:/dev/sda", "device:/dev/y"]


def test_as_many_devices_as_a_container_may_have_are_hints(source):
    assert len(source.hints(container(*[device("/dev/nvidia0", 195)] * 64))) == 64


def test_the_cpus_close_to_a_path_are_known_where_the_path_is_that_of_a_device(source):
    assert str(source.close_cpus("/sys/devices/pci0000:00/0000:00:02.0")) == "4-7"
    assert source.close_cpus("/var/lib/data") is None
