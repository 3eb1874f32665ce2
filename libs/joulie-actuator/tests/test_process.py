"""The commands as processes, on a fake two-socket machine."""

import json
import signal
from pathlib import Path

import pytest

from joulie_actuator import process
from joulie_actuator.hardware.journal import JournalHeldError
from joulie_actuator.protocol import DescribeCpu, ReadCpu, ReadGpu, SetThrottle
from joulie_actuator.replies import CpuDescription, GpuReadings
from joulie_actuator.settings import read_settings
from joulie_actuator.subsystems import HostSubsystems
from joulie_core.control_result import ControlResult
from joulie_testing.agent.actuator_process import cap

MIB = 1024
ACTUATOR_LIMIT_KIB = 40 * MIB
#: What has no business in a process that runs as root.
FORBIDDEN = {"kubernetes_asyncio", "aiohttp", "pydantic", "structlog", "prometheus_client", "asyncio", "ssl"}


def test_ending_by_order_gives_everything_back(node):
    actuator = node.start_listening()
    assert node.request(cap(90)).result is ControlResult.APPLIED
    assert node.request(SetThrottle(throttle_pct=50, lease_s=60)).result is ControlResult.APPLIED
    assert node.limits_watts == [90, 90]
    actuator.send_signal(signal.SIGTERM)
    out, err = actuator.communicate(timeout=30)
    assert (actuator.returncode, err) == (0, "")
    assert (node.limits_watts, node.policies_khz) == ([150, 150], {3_900_000})
    assert [json.loads(line)["event"] for line in out.splitlines()] == ["stopping", "restored", "stopped"]


def test_a_killed_actuator_leaves_its_caps_and_the_next_gives_them_back_before_it_serves(node):
    node.start_listening().kill()
    killed = node.start_listening()
    node.request(cap(90))
    killed.kill()
    killed.wait()
    assert node.limits_watts == [90, 90]
    node.start_listening()
    assert node.request(ReadCpu()).throttle_pct == 0
    assert node.limits_watts == [150, 150]


def test_a_controller_that_stops_renewing_loses_its_caps(node):
    actuator = node.start_listening()
    node.request(cap(90, lease_s=0.1))
    event = json.loads(actuator.stdout.readline())
    assert (event["event"], event["cause"], event["restored"]) == ("restored", "lease expired", 2)
    assert node.limits_watts == [150, 150]


def test_two_actuators_never_share_a_machine(node, monkeypatch, capsys):
    node.start_listening()
    monkeypatch.setattr(process, "CLAIM_S", 0.0)
    assert process.claim(read_settings(node.env)) is None
    assert "is held by another process" in capsys.readouterr().out
    assert isinstance(node.request(DescribeCpu()), CpuDescription)


def test_what_runs_as_root_imports_no_more_than_it_needs(node):
    actuator = node.start_listening("-X", "importtime")
    for request in (DescribeCpu(), cap(90), ReadCpu(), ReadGpu()):
        node.request(request)
    actuator.send_signal(signal.SIGTERM)
    _, imports = actuator.communicate(timeout=30)
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in imports.splitlines()}
    assert "joulie_actuator" in imported
    assert not imported & FORBIDDEN


def test_the_actuator_stays_within_its_memory(node):
    actuator = node.start_listening()
    for watts in range(60, 150):
        node.request(cap(watts))
        node.request(SetThrottle(throttle_pct=watts % 100, lease_s=60))
        assert isinstance(node.request(ReadGpu()), GpuReadings)
        node.request(ReadCpu())
    status = Path(f"/proc/{actuator.pid}/status").read_text()
    (rss_kib,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    print(f"VmRSS of the actuator: {rss_kib / MIB:.1f} MiB")
    assert rss_kib < ACTUATOR_LIMIT_KIB


@pytest.mark.parametrize("command", ["actuator", "restore", "doctor"])
def test_a_wrong_command_line_names_every_error(command, node):
    wrong = node.run(command, DVFS_MIN_FREQ_KHZ="x", ACTUATOR_CONTROLLER_UID="-1")
    assert wrong.returncode == 2
    assert "DVFS_MIN_FREQ_KHZ" in wrong.stderr
    assert "ACTUATOR_CONTROLLER_UID" in wrong.stderr
    assert node.run(command, "--frobnicate").returncode == 2
    helped = node.run(command, "--help")
    assert helped.returncode == 0
    assert "STATE_DIR" in helped.stdout


def test_an_actuator_with_another_state_directory_finds_that_the_machine_is_held(node, elsewhere, monkeypatch, capsys):
    node.start_listening()
    node.request(cap(90))
    monkeypatch.setattr(process, "CLAIM_S", 0.0)
    assert process.claim(read_settings(node.env | elsewhere)) is None
    assert "with a state directory other than" in capsys.readouterr().out
    assert node.limits_watts == [90, 90]


def test_two_actuators_on_a_machine_without_a_directory_of_cpus_are_kept_apart_by_the_state_directory(node, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    held = HostSubsystems(
        read_settings(node.env | {"HOST_SYS_ROOT": str(bare)}), lambda *_args, **_details: None, drivers=[]
    )
    with pytest.raises(JournalHeldError):
        HostSubsystems(
            read_settings(node.env | {"HOST_SYS_ROOT": str(bare)}), lambda *_args, **_details: None, drivers=[]
        )
    held.close()
