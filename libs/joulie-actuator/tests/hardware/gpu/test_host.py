"""The drivers of a machine."""

from joulie_actuator.hardware.gpu import host
from joulie_actuator.hardware.gpu.amdsmi import AmdSmiLibrary
from joulie_actuator.hardware.gpu.device_calls import GpuDeadlines
from joulie_actuator.hardware.gpu.host import host_gpu_drivers


def test_a_machine_has_the_drivers_of_both_vendors_with_the_given_wait(monkeypatch):
    made = []
    monkeypatch.setattr(host, "LibraryDriver", lambda library, *, deadlines: made.append((library.name, deadlines)))
    host_gpu_drivers("/sys", open_wait_s=7.0)
    host_gpu_drivers("/sys")
    assert made == [
        (name, deadlines)
        for deadlines in (GpuDeadlines(open_wait_s=7.0), GpuDeadlines())
        for name in ("nvml", "amdsmi")
    ]


def test_drivers_are_not_opened_before_their_first_call():
    assert [(driver.name, driver.generation) for driver in host_gpu_drivers("/sys")] == [("nvml", 0), ("amdsmi", 0)]


def test_the_names_of_amds_partitions_are_read_from_the_given_sysfs(monkeypatch, tmp_path):
    node = tmp_path / "class/kfd/kfd/topology/nodes/1"
    node.mkdir(parents=True)
    (node / "properties").write_text("vendor_id 4098\ndrm_render_minor 129\nlocation_id 3096\ndomain 0\n")
    (tmp_path / "devices/platform/amdgpu_xcp_1/drm/renderD129").mkdir(parents=True)
    readers = []
    monkeypatch.setattr(host, "LibraryDriver", lambda library, *, deadlines: (library.name, deadlines))

    class AmdSmi(AmdSmiLibrary):
        def __init__(self, partitions):
            readers.append(partitions)
            super().__init__(partitions)

    monkeypatch.setattr(host, "AmdSmiLibrary", AmdSmi)
    host_gpu_drivers(str(tmp_path))
    assert [read() for read in readers] == [{"0000:0c:03.0": ("amdgpu_xcp_1",)}]
