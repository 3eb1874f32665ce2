"""The command line of joulie-containers."""

import subprocess
import sys
from importlib.metadata import version

import pytest

from joulie_actuator import commands
from joulie_containers.__main__ import COMMANDS


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "joulie_containers", *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command):
    done = run(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage" in done.stdout.lower()


def test_the_help_and_a_wrong_command_name_all_of_them():
    shown, refused = run("--help"), run("resources")
    assert (shown.returncode, refused.returncode) == (0, 2)
    assert shown.stdout == refused.stderr
    assert [name for name in COMMANDS if f"\n  {name} " not in shown.stdout] == []


def test_the_version_is_that_of_the_member():
    assert run("--version").stdout == f"joulie-containers {version('joulie-containers')}\n"


def test_the_commands_of_the_actuator_are_those_of_every_program_that_brings_it():
    assert commands.COMMANDS.items() <= COMMANDS.items()
