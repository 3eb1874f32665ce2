"""A state directory that is read-only or full, and journals that cannot be read."""

import subprocess
from pathlib import Path
from unittest.mock import ANY

import pytest

from joulie_actuator.protocol import (
    DescribeCpu,
    SetThrottle,
)
from joulie_actuator.reasons import Reason
from joulie_core.control_result import ControlResult
from joulie_testing.agent.actuator_process import cap, stop

#: Makes the state directory `$0` refuse new files in a mount namespace of its own, with what is in it still readable.
READ_ONLY = """mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" """
FULL = """cp -a "$0" "$0.copy" && mount -t tmpfs -o size=32k none "$0" && cp -a "$0.copy/." "$0" && rm -r "$0.copy" &&
    { cat /dev/zero >"$0/filler" 2>/dev/null; for n in 1 2 3 4 5 6 7 8; do echo x >"$0/$n" 2>/dev/null; done; true; }"""
needs_mounts = pytest.mark.skipif(
    subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode != 0,
    reason="mounting takes root with CAP_SYS_ADMIN",
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
