"""The command `restore`, with and without an actuator that runs."""

from pathlib import Path

from joulie_actuator.settings import read_settings
from joulie_actuator.subsystems import HostSubsystems
from joulie_testing.agent.actuator_process import cap, next_event, silent, stop


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


def test_restore_and_doctor_with_another_state_directory_name_the_process_that_manages_the_machine(node, elsewhere):
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


def test_restoring_if_unowned_fails_where_a_journal_cannot_be_read(capped):
    (Path(capped.env["STATE_DIR"]) / "gpu" / "journal.json").write_text("{")
    assert capped.run("restore", "--if-unowned").returncode == 1
    assert capped.limits_watts == [150, 150]
