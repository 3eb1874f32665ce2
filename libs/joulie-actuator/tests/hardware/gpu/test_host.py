"""The drivers of a machine."""

from joulie_actuator.hardware.gpu import host
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
