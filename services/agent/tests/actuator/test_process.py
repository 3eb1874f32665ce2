"""The commands as processes, on a fake two-socket machine."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import ANY

import pytest

from joulie_agent.actuator import blocking_client, process
from joulie_agent.actuator.protocol import (
    CpuDescription,
    DescribeCpu,
    GpuReadings,
    ReadCpu,
    ReadGpu,
    SetCpuCap,
    SetThrottle,
    decode_reply,
    encode,
)
from joulie_agent.actuator.settings import read_settings
from joulie_agent.actuator.subsystems import HostSubsystems
from joulie_agent.hardware.journal import JournalHeldError
from joulie_agent.reasons import Reason
from joulie_agent.testing.fake_sysfs import FakeMachine
from joulie_core.control_result import ControlResult

MIB = 1024
ACTUATOR_LIMIT_KIB = 40 * MIB
#: What has no business in a process that runs as root.
FORBIDDEN = {"kubernetes_asyncio", "aiohttp", "pydantic", "structlog", "prometheus_client", "asyncio", "ssl"}


@dataclass
class Node:
    """A machine in a directory, and the commands run on it."""

    machine: FakeMachine
    env: dict
    running: list = field(default_factory=list)

    def start(self, *options, before=(), **env):
        process = subprocess.Popen(
            [*before, sys.executable, *options, "-m", "joulie_agent", "actuator"],
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.running.append(process)
        return process

    def start_listening(self, *options, **env):
        process = self.start(*options, **env)
        while json.loads(process.stdout.readline())["event"] != "listening":
            pass
        return process

    def run(self, command, *arguments, before=(), **env):
        return subprocess.run(
            [*before, sys.executable, "-m", "joulie_agent", command, *arguments],
            env={**self.env, **env},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def request(self, request):
        return blocking_client.request(self.env["ACTUATOR_SOCKET"], request, 30)

    @property
    def limits_watts(self):
        return [self.machine.read(path) / 1e6 for path in self.machine.limits()]

    @property
    def policies_khz(self):
        return {self.machine.read(path) for path in self.machine.policy_limits()}


@pytest.fixture
def node(actuator_settings, actuator_environment):
    settings, machine = actuator_settings()
    env = os.environ | actuator_environment(settings)
    made = Node(machine, env)
    yield made
    for running in made.running:
        running.kill()
        running.communicate()


def cap(watts, lease_s=60.0):
    return SetCpuCap(cap_watts_per_package=watts, lease_s=lease_s)


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
    assert "joulie_agent" in imported
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


def test_restore_restores_what_a_killed_actuator_left(node):
    killed = node.start_listening()
    node.request(cap(90))
    killed.kill()
    killed.wait()
    restored = node.run("restore")
    assert (restored.returncode, restored.stderr) == (0, "")
    assert "restored       rapl/package-0/long_term = 150000000" in restored.stdout
    assert restored.stdout.endswith("2 restored, none left\n")
    assert node.limits_watts == [150, 150]
    assert node.run("restore").stdout == "0 restored, none left\n"


def test_restore_keeps_a_newer_external_value(node):
    killed = node.start_listening()
    node.request(cap(90))
    killed.kill()
    killed.wait()
    node.machine.write(node.machine.limits()[0], 120_000_000)
    restored = node.run("restore")
    assert restored.returncode == 0
    assert "kept_external  rapl/package-0/long_term = 120000000" in restored.stdout
    assert node.limits_watts == [120, 150]


def test_restore_goes_through_an_actuator_that_runs(node):
    node.start_listening()
    node.request(cap(90))
    restored = node.run("restore")
    assert restored.returncode == 0
    assert "requesting the restore from it" in restored.stdout
    assert "stop it first" in restored.stdout
    assert node.limits_watts == [150, 150]


def test_restore_fails_where_something_is_left(node):
    killed = node.start_listening()
    node.request(cap(90))
    killed.kill()
    killed.wait()
    (node.machine.sys / node.machine.limits()[0]).chmod(0o444)
    restored = node.run("restore")
    assert restored.returncode == 1
    assert "1 restored, 1 not restored" in restored.stdout
    assert "read-only" in restored.stdout


@pytest.fixture
def capped(node):
    """A machine with caps of an actuator that was killed."""
    killed = node.start_listening()
    assert node.request(cap(90)).result is ControlResult.APPLIED
    assert node.request(SetThrottle(throttle_pct=100, lease_s=60)).result is ControlResult.APPLIED
    killed.kill()
    killed.wait()
    assert node.limits_watts == [90, 90]
    return node


def stop(actuator):
    """End an actuator; returns its exit code and its last line."""
    actuator.send_signal(signal.SIGTERM)
    out, _ = actuator.communicate(timeout=60)
    return actuator.returncode, json.loads(out.splitlines()[-1])


#: Makes the state directory `$0` refuse new files in a mount namespace of its own, with what is in it still readable.
READ_ONLY = """mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" """
FULL = """cp -a "$0" "$0.copy" && mount -t tmpfs -o size=32k none "$0" && cp -a "$0.copy/." "$0" && rm -r "$0.copy" &&
    { cat /dev/zero >"$0/filler" 2>/dev/null; for n in 1 2 3 4 5 6 7 8; do echo x >"$0/$n" 2>/dev/null; done; true; }"""
needs_mounts = pytest.mark.skipif(
    subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode != 0,
    reason="takes the right to mount",
)


def mounted(node, script):
    return [
        "unshare",
        "--mount",
        "sh",
        "-c",
        f'mount --make-rprivate / && {script} && exec "$@"',
        node.env["STATE_DIR"],
    ]


@needs_mounts
@pytest.mark.parametrize(("script", "error"), [(READ_ONLY, "Read-only file system"), (FULL, "No space left")])
def test_an_actuator_whose_state_directory_takes_no_file_restores_and_sets_nothing(capped, script, error):
    actuator = capped.start_listening(before=mounted(capped, script))
    described = capped.request(DescribeCpu())
    assert (capped.limits_watts, capped.policies_khz) == ([150, 150], {3_900_000})
    assert described.journal.reason is Reason.NO_JOURNAL
    assert error in described.journal.message
    for request in (cap(90), SetThrottle(throttle_pct=100, lease_s=60)):
        done = capped.request(request)
        assert (done.result, done.reason) == (ControlResult.BLOCKED, Reason.NO_JOURNAL)
        assert error in done.message
    assert capped.limits_watts == [150, 150]
    assert stop(actuator) == (0, ANY)


@needs_mounts
@pytest.mark.parametrize("script", [READ_ONLY, FULL], ids=["read-only", "full"])
def test_restore_restores_from_a_state_directory_that_takes_no_file(capped, script):
    restored = capped.run("restore", before=mounted(capped, script))
    assert (restored.returncode, restored.stderr) == (0, "")
    assert "cannot be written" in restored.stdout
    assert (capped.limits_watts, capped.policies_khz) == ([150, 150], {3_900_000})


@needs_mounts
def test_restore_fails_where_a_state_directory_is_read_only_and_a_limit_is_locked(capped):
    (capped.machine.sys / capped.machine.limits()[0]).chmod(0o444)
    assert capped.run("restore", before=mounted(capped, READ_ONLY)).returncode == 1
    assert capped.limits_watts == [90, 150]


@pytest.mark.parametrize("content", ["{", None], ids=["torn", "unreadable"])
@pytest.mark.parametrize("subsystem", ["cpu", "gpu"])
def test_a_journal_that_cannot_be_understood_fails_every_command_and_the_other_part_is_restored(
    capped, subsystem, content
):
    journal = Path(capped.env["STATE_DIR"]) / subsystem / "journal.json"
    journal.unlink(missing_ok=True)
    if content is None:
        journal.mkdir()
    else:
        journal.write_text(content)
    actuator = capped.start_listening()
    done = capped.request(cap(100))
    if subsystem == "cpu":
        assert done.result is ControlResult.BLOCKED
        assert str(journal) in done.message
        assert "remove" in done.message
        assert capped.limits_watts == [90, 90]
    else:
        assert capped.limits_watts == [100, 100]
    restored = capped.run("restore")
    assert restored.returncode == 1
    assert str(journal) in restored.stdout
    assert capped.limits_watts == ([90, 90] if subsystem == "cpu" else [150, 150])
    assert capped.run("doctor").returncode == 1
    code, stopped = stop(actuator)
    assert (code, stopped["not_restored"]) == (1, [subsystem])
    restored = capped.run("restore")
    assert restored.returncode == 1
    assert str(journal) in restored.stdout


def test_the_doctor_lists_limits_below_the_maximum_where_the_journal_is_unreadable(capped):
    output = capped.run("doctor")
    assert output.returncode == 1
    assert "and no actuator runs: run `joulie-agent restore`" in output.stdout
    assert "suspect" not in output.stdout
    (Path(capped.env["STATE_DIR"]) / "cpu" / "journal.json").write_text("{")
    capped.machine.write(capped.machine.policy_limits()[1], 3_900_000)
    output = capped.run("doctor")
    assert output.returncode == 1
    suspects = [line for line in output.stdout.splitlines() if line.startswith("suspect")]
    assert len(suspects) == 2 + 31
    assert f"{capped.machine.limits()[0]}: 90 W, the maximum is 150 W" in suspects[0]
    assert f"{capped.machine.policy_limits()[0]}: 1.5 GHz, the maximum is 3.9 GHz" in suspects[2]
    assert not any(capped.machine.policy_limits()[1] in line for line in suspects)


def test_the_doctor_shows_what_works_on_a_two_socket_node(node):
    output = node.run("doctor")
    assert output.returncode == 0
    lines = {line.split("  ")[0]: line for line in output.stdout.splitlines()}
    assert "absent" in lines["actuator"]
    assert "2 packages, 16 cores, 32 threads, 192 GiB" in lines["cpu"]
    assert "works    package-0, package-1" in lines["cpu power reading"]
    assert "works    37.5 to 150 W per package" in lines["cpu power cap"]
    assert "works    32 policies, 1.0 to 3.9 GHz, driver intel_pstate" in lines["cpu throttle"]


def test_the_doctor_reads_through_an_actuator_that_runs(node):
    node.start_listening()
    node.request(cap(90))
    output = node.run("doctor").stdout
    assert "read by the actuator" in output
    assert "2 limits managed" in output


def test_the_doctor_names_what_a_machine_lacks_and_why(node, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    output = node.run("doctor", HOST_SYS_ROOT=str(bare), HOST_PROC_ROOT=str(bare), LD_LIBRARY_PATH="", ROCM_HOME="")
    assert output.returncode == 0
    lines = {line.split("  ")[0]: line for line in output.stdout.splitlines()}
    assert "blocked  NoInterface: no RAPL package zone" in lines["cpu power cap"]
    assert "blocked  NoInterface: no RAPL package zone" in lines["cpu power reading"]
    assert "blocked  NoInterface: no cpufreq policy" in lines["cpu throttle"]
    assert {"nvml", "amdsmi"} <= lines.keys()


def test_the_doctor_changes_nothing(node, tmp_path):
    node.run("doctor")
    assert not Path(node.env["STATE_DIR"]).exists()


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


@pytest.fixture
def elsewhere(tmp_path):
    """The environment of a second agent on the same machine."""
    return {"STATE_DIR": str(tmp_path / "elsewhere"), "ACTUATOR_SOCKET": str(tmp_path / "second")}


def silent(_event, /, **_details):
    """A log that is not read."""


def next_event(actuator, name):
    while (event := json.loads(actuator.stdout.readline()))["event"] != name:
        pass
    return event


def test_an_actuator_with_another_state_directory_finds_that_the_machine_is_held(node, elsewhere, monkeypatch, capsys):
    node.start_listening()
    node.request(cap(90))
    monkeypatch.setattr(process, "CLAIM_S", 0.0)
    assert process.claim(read_settings(node.env | elsewhere)) is None
    assert "with a state directory other than" in capsys.readouterr().out
    assert node.limits_watts == [90, 90]


def test_restore_and_doctor_with_another_state_directory_say_who_manages_the_machine(node, elsewhere):
    node.start_listening()
    node.request(cap(90))
    for command in ("restore", "doctor"):
        output = node.run(command, **elsewhere)
        assert output.returncode == 1
        assert "another process, with a state directory other than" in output.stdout
    assert node.limits_watts == [90, 90]
    assert "machine held by    works" in node.run("doctor").stdout


def test_an_actuator_that_starts_while_restore_runs_waits_for_it(node):
    holder = HostSubsystems(read_settings(node.env), silent, drivers=[])
    actuator = node.start()
    next_event(actuator, "waiting for another process to release the lock")
    holder.close()
    next_event(actuator, "listening")


def test_an_actuator_that_waits_for_the_lock_ends_at_once_on_sigterm(node):
    holder = HostSubsystems(read_settings(node.env), silent, drivers=[])
    actuator = node.start()
    next_event(actuator, "waiting for another process to release the lock")
    assert stop(actuator)[0] == 1
    holder.close()


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


def test_restoring_if_unowned_changes_nothing_while_an_actuator_runs(node):
    node.start_listening()
    node.request(cap(90))
    output = node.run("restore", "--if-unowned")
    assert (output.returncode, output.stderr) == (0, "")
    assert node.limits_watts == [90, 90]


def test_restoring_if_unowned_restores_what_a_killed_actuator_left_and_fails_where_it_cannot(capped):
    stuck = capped.machine.sys / capped.machine.limits()[0]
    stuck.chmod(0o444)
    assert capped.run("restore", "--if-unowned").returncode == 1
    assert capped.limits_watts == [90, 150]
    stuck.chmod(0o644)
    assert capped.run("restore", "--if-unowned").returncode == 0
    assert capped.limits_watts == [150, 150]
    assert capped.run("restore", "--if-unowned").stdout == "no limit is managed\n"


def test_restoring_if_unowned_changes_nothing_where_nothing_was_ever_set(node):
    output = node.run("restore", "--if-unowned")
    assert (output.returncode, output.stdout) == (0, "no limit is managed\n")
    assert not Path(node.env["STATE_DIR"]).exists()


def test_restoring_if_unowned_fails_where_a_journal_cannot_tell(capped):
    (Path(capped.env["STATE_DIR"]) / "gpu" / "journal.json").write_text("{")
    assert capped.run("restore", "--if-unowned").returncode == 1
    assert capped.limits_watts == [150, 150]


@pytest.fixture
def blocks(node):
    """Make a file of the machine block every open; it is a pipe without a writer."""
    made = []

    def make(path):
        file = node.machine.sys / path
        file.rename(file.with_suffix(".real"))
        os.mkfifo(file)
        made.append(file)
        return file

    return make


def test_a_counter_that_blocks_holds_up_neither_the_lease_nor_the_end(node, blocks):
    actuator = node.start_listening()
    node.request(cap(90))
    blocks(f"{node.machine.zones()[0]}/energy_uj")
    reading = node.request(ReadCpu())
    assert [zone.energy_uj is None for zone in reading.zones] == [True, False]
    node.request(cap(80, lease_s=0.1))
    assert next_event(actuator, "restored")["cause"] == "lease expired"
    assert node.limits_watts == [150, 150]
    node.request(SetThrottle(throttle_pct=100, lease_s=60))
    assert stop(actuator)[0] == 0
    assert node.policies_khz == {3_900_000}


def test_a_limit_that_blocks_is_left_and_everything_else_is_restored_at_the_end(node, blocks):
    actuator = node.start_listening(ACTUATOR_STOP_GRACE="8")
    node.request(cap(90))
    node.request(SetThrottle(throttle_pct=100, lease_s=60))
    first, second = node.machine.limits()
    blocks(first)
    code, stopped = stop(actuator)
    assert (code, stopped["not_restored"]) == (1, ["cpu"])
    assert node.machine.read(second) == 150_000_000
    assert node.policies_khz == {3_900_000}


def test_1000_idle_connections_disable_neither_the_lease_nor_the_end(node):
    actuator = node.start_listening()
    with ExitStack() as connections:
        flood = [connections.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(1000)]
        connection = flood[0]
        connection.settimeout(30)
        lines = connection.makefile("rb")
        for each in flood:
            each.connect(node.env["ACTUATOR_SOCKET"])
        for request in (cap(90, lease_s=0.1), SetThrottle(throttle_pct=100, lease_s=0.1)):
            connection.sendall(encode(request))
            assert decode_reply(lines.readline()).result is ControlResult.APPLIED
        assert next_event(actuator, "restored")["cause"] == "lease expired"
        assert (node.limits_watts, node.policies_khz) == ([150, 150], {3_900_000})
        connection.sendall(encode(cap(90)))
        assert decode_reply(lines.readline()).result is ControlResult.APPLIED
        threads = len(list(Path(f"/proc/{actuator.pid}/task").iterdir()))
        assert threads < 30
        assert stop(actuator)[0] == 0
    assert node.limits_watts == [150, 150]


def exhaust_descriptors(actuator):
    """Let a running actuator open no further file."""
    used = [int(each.name) for each in Path(f"/proc/{actuator.pid}/fd").iterdir()]
    resource.prlimit(actuator.pid, resource.RLIMIT_NOFILE, (max(used) + 1, max(used) + 1))


def test_an_actuator_without_a_descriptor_left_keeps_its_lease(node):
    actuator = node.start_listening()
    ask = NodeConnection(node)
    ask(SetThrottle(throttle_pct=100, lease_s=2))
    exhaust_descriptors(actuator)
    assert next_event(actuator, "restored")["cause"] == "lease expired"
    assert node.policies_khz == {3_900_000}
    ask.close()


def test_an_actuator_without_a_descriptor_left_restores_at_its_end(node):
    actuator = node.start_listening()
    ask = NodeConnection(node)
    ask(cap(90))
    exhaust_descriptors(actuator)
    code, stopped = stop(actuator)
    assert (code, stopped["not_restored"]) == (0, [])
    assert node.limits_watts == [150, 150]
    ask.close()


class NodeConnection:
    """A connection that stays open."""

    def __init__(self, node):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(30)
        self._socket.connect(node.env["ACTUATOR_SOCKET"])
        self._lines = self._socket.makefile("rb")

    def __call__(self, request):
        self._socket.sendall(encode(request))
        return decode_reply(self._lines.readline())

    def close(self):
        self._lines.close()
        self._socket.close()


def test_the_probe_distinguishes_alive_dead_and_degraded(node, blocks):
    assert node.run("probe").returncode == 1
    actuator = node.start_listening()
    assert (node.run("probe").stdout, node.run("probe").returncode) == ("alive\n", 0)
    file = blocks(f"{node.machine.zones()[0]}/energy_uj")
    node.request(ReadCpu())
    output = node.run("probe")
    assert output.returncode == 0
    assert f"cpu: {file} has blocked" in output.stdout
    actuator.send_signal(signal.SIGSTOP)
    assert node.run("probe").returncode == 1
    actuator.send_signal(signal.SIGCONT)
    assert stop(actuator)[0] == 0
