"""AMD sockets with the kernel's HSMP power sensors: found, capped, read and restored like any other power limit."""

from dataclasses import replace

import pytest

from joulie_actuator.cpus import CpuHandler
from joulie_actuator.hardware import hsmp, rapl
from joulie_actuator.hardware.journal import Journal
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.knob import HardwareFailure, KnobLimits
from joulie_actuator.protocol import ReadCpu, SetCpuCap, SetThrottle
from joulie_actuator.reasons import Reason
from joulie_core.control_result import ControlResult
from joulie_testing.agent.fake_sysfs import build
from joulie_testing.agent.machine_spec import PLATFORMS

CAP_MAX_UW = 400_000_000


def put_sensor(machine, hwmon, *, name="amd_hsmp_hwmon", device="AMDI0097:00", uid=None, cap_uw=280_000_000):
    """Write one hwmon directory below its device, and name it in the class directory as the kernel does."""
    device_path = machine.sys / "devices/platform" / device
    path = device_path / "hwmon" / f"hwmon{hwmon}"
    path.mkdir(parents=True)
    (path / "device").symlink_to("../..")
    if uid is not None:
        (device_path / "firmware_node").mkdir(exist_ok=True)
        (device_path / "firmware_node" / "uid").write_text(f"{uid}\n")
    values = {"name": name, "power1_cap": cap_uw, "power1_cap_max": CAP_MAX_UW, "power1_input": 123_000_000}
    for file, value in values.items():
        (path / file).write_text(f"{value}\n")
        (path / file).chmod(0o644 if file == "power1_cap" else 0o444)
    link = machine.sys / "class/hwmon" / f"hwmon{hwmon}"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(path)
    return path


@pytest.fixture
def epyc(tmp_path):
    """Two sockets whose sensors were registered in the opposite order, beside one that is another driver's."""
    machine = build(tmp_path / "machine", PLATFORMS["epyc-2s"])
    put_sensor(machine, 0, name="k10temp", device="pci0000:00")
    put_sensor(machine, 3, device="AMDI0097:01", uid="ID01")
    put_sensor(machine, 4, device="AMDI0097:00", uid="ID00")
    return machine


@pytest.fixture
def part(epyc, tmp_path):
    now = [0.0]
    with Journal.open(tmp_path / "state", boot_id="1") as journal:
        yield CpuHandler(epyc.tree(), str(epyc.proc), JournaledWriter(journal), 1_500_000, clock=lambda: now[0])


def caps(machine):
    return {file.parent.name: int(file.read_text()) for file in machine.sys.glob("class/hwmon/hwmon*/power1_cap")}


def test_sensors_of_other_drivers_are_left_out_and_acpi_names_the_socket(epyc):
    sockets = hsmp.discover(epyc.tree())
    assert [(socket.package, socket.path.rpartition("/")[2]) for socket in sockets] == [(0, "hwmon4"), (1, "hwmon3")]


def test_without_acpi_names_the_sensors_are_in_the_order_of_their_numbers(tmp_path):
    machine = build(tmp_path / "machine", PLATFORMS["epyc-2s"])
    put_sensor(machine, 10, device="amd_hsmp")
    put_sensor(machine, 9, device="amd_hsmp")
    found = [(socket.package, socket.path.rpartition("/")[2]) for socket in hsmp.discover(machine.tree())]
    assert found == [(0, "hwmon9"), (1, "hwmon10")]


def test_the_limit_takes_the_place_of_the_one_that_rapl_lacks(epyc):
    tree = epyc.tree()
    without = rapl.discover(tree)
    assert all(isinstance(zone.power_limit, HardwareFailure) for zone in without)
    zones = hsmp.attach(tree, without)
    assert [zone.power_limit.key for zone in zones] == ["hsmp/package-0/cap", "hsmp/package-1/cap"]
    assert zones[0].power_limit.limits == KnobLimits(CAP_MAX_UW // 4, CAP_MAX_UW)
    assert zones[0].backend == "hsmp"


def test_a_zone_with_a_limit_of_its_own_keeps_it(tmp_path):
    machine = build(tmp_path / "machine", PLATFORMS["xeon-2s"])
    put_sensor(machine, 1, uid="ID00")
    tree = machine.tree()
    assert hsmp.attach(tree, rapl.discover(tree))[0].power_limit.key == "rapl/package-0/long_term"


def test_a_cap_goes_to_every_socket_and_is_reported_as_hsmp(epyc, part):
    done = part.execute(SetCpuCap(cap_watts_per_package=200, lease_s=60))
    assert (done.result, done.backend, done.enforced_watts) == (ControlResult.APPLIED, "hsmp", 200.0)
    assert caps(epyc) == {"hwmon3": 200_000_000, "hwmon4": 200_000_000, "hwmon0": 280_000_000}


def test_the_original_is_restored_and_follows_the_socket_when_the_numbers_change(epyc, tmp_path):
    (epyc.sys / "class/hwmon/hwmon3/power1_cap").write_text("310000000\n")
    state = tmp_path / "state"
    with Journal.open(state, boot_id="1") as journal:
        part = CpuHandler(epyc.tree(), str(epyc.proc), JournaledWriter(journal), 1_500_000, clock=lambda: 0.0)
        part.execute(SetCpuCap(cap_watts_per_package=200, lease_s=60))
    for socket, (before, after) in {"00": ("hwmon4", "hwmon3"), "01": ("hwmon3", "hwmon4")}.items():
        sensors = epyc.sys / f"devices/platform/AMDI0097:{socket}/hwmon"
        (sensors / before).rename(sensors / after)
        link = epyc.sys / "class/hwmon" / after
        link.unlink()
        link.symlink_to(sensors / after)
    with Journal.open(state, boot_id="1") as journal:
        part = CpuHandler(epyc.tree(), str(epyc.proc), JournaledWriter(journal), 1_500_000, clock=lambda: 0.0)
        assert all(knob.done for knob in part.restore(part.writer.managed).knobs)
    assert (caps(epyc)["hwmon4"], caps(epyc)["hwmon3"]) == (310_000_000, 280_000_000)


def test_a_throttle_that_takes_over_releases_the_cap(epyc, part):
    part.execute(SetCpuCap(cap_watts_per_package=200, lease_s=60))
    part.execute(SetThrottle(throttle_pct=50, lease_s=60, release_caps=True))
    assert set(caps(epyc).values()) == {280_000_000}


def test_a_socket_without_an_energy_counter_is_read_by_its_sensor(tmp_path):
    machine = build(tmp_path / "machine", replace(PLATFORMS["epyc-2s"], sockets=1, zones=frozenset()))
    sensor = put_sensor(machine, 2, uid="ID00")
    part = CpuHandler(
        machine.tree(), str(machine.proc), HardwareFailure(Reason.NO_JOURNAL), 1_500_000, clock=lambda: 0.0
    )
    assert [(zone.zone, zone.power_watts) for zone in part.execute(ReadCpu()).zones] == [("package-0", 123.0)]
    (sensor / "power1_input").chmod(0o644)
    (sensor / "power1_input").write_text("0\n")
    reading = part.execute(ReadCpu()).zones[0]
    assert (reading.power_watts, reading.failure.reason) == (None, Reason.NO_READING)
