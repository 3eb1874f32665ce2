"""Every command in the documentation is run by a test, or read by the program that it is for, or excused by name."""

import argparse
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from typing import NoReturn

import pytest
import yaml
from tests.doc_commands import (
    ELSEWHERE,
    ON_A_CLUSTER,
    ON_SLEEPING_NODES,
    OTHER_LANGUAGES,
    PAGES,
    ROOT,
    Command,
    documented_commands,
    languages,
)

from joulie_agent.__main__ import COMMANDS as COMMANDS_OF_AGENT
from joulie_cli.arguments import make_parser
from joulie_containers.__main__ import COMMANDS as COMMANDS_OF_CONTAINERS
from joulie_sim.cli import COMMANDS as COMMANDS_OF_SIM
from joulie_sim.cli import main as run_command

COMMANDS = documented_commands()
READ = [each for each in COMMANDS if each.elsewhere is None]
#: Stand for a name in commands, for parsers that know which there are.
PLACEHOLDERS = {"VERB": "status"}
SERVICES = ("joulie-operator", "joulie-agent", "joulie-containers", "joulie-extender")


class AcceptedError(Exception):
    """A parser has accepted its arguments."""


def of(*programs: str) -> list[Command]:
    """Return the commands of some programs, equal ones once."""
    return list({each.text: each for each in READ if each.words[0] in programs}.values())


def ids(command: Command) -> str:
    return command.text


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_a_page_says_what_it_is(page: str) -> None:
    assert set(languages(page)) <= {"sh", "console", *OTHER_LANGUAGES}


def test_every_command_is_covered() -> None:
    on_a_cluster = {"helm", "kubectl", "kubectl-joulie", "curl"}
    assert {each.words[0] for each in READ} <= {"just", "python", "joulie-sim", *SERVICES, *on_a_cluster}
    sections = {(each.page, each.section) for each in READ if each.words[0] in on_a_cluster}
    assert sections == {*ON_A_CLUSTER, *ON_SLEEPING_NODES}


def test_every_exception_is_needed_and_names_a_test_that_exists() -> None:
    for (page, pattern), reason in ELSEWHERE.items():
        assert any(each.page == page and re.fullmatch(pattern, each.text) for each in COMMANDS), pattern
        assert not reason.test or (ROOT / reason.test).is_file(), reason.test


@pytest.mark.parametrize("command", of("just"), ids=ids)
def test_just_has_the_recipe(command: Command) -> None:
    just = shutil.which("just", path=f"{sys.prefix}/bin") or "just"
    done = subprocess.run(
        [just, "--dry-run", *command.words[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for word in command.words[1:]:
        if word.endswith(".py") or word.startswith(("tests/", "services/", "libs/")):
            assert list(ROOT.glob(word)), word


@pytest.mark.parametrize("command", of("joulie-sim"), ids=ids)
def test_the_simulator_accepts_the_arguments(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    parse = argparse.ArgumentParser.parse_args

    def stop(self: argparse.ArgumentParser, arguments: list[str]) -> NoReturn:
        parse(self, arguments)
        raise AcceptedError

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    _, verb, *arguments = command.words
    assert verb in COMMANDS_OF_SIM
    with pytest.raises(AcceptedError):
        run_command([verb, *arguments])


@pytest.mark.parametrize("command", of(*SERVICES), ids=ids)
def test_the_help_of_a_service_has_the_options(command: Command) -> None:
    program, *arguments = command.words
    names = [each for each in arguments if not each.startswith("-")]
    assert set(names) <= {*(COMMANDS_OF_CONTAINERS if program == "joulie-containers" else COMMANDS_OF_AGENT)}
    run = [sys.executable, "-m", program.replace("-", "_"), *names, "--help"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    options = {each for each in arguments if each.startswith("-")} - {"--help"}
    assert [each for each in options if each not in done.stdout] == []


@pytest.mark.parametrize("command", of("python"), ids=ids)
def test_a_module_or_file_exists(command: Command) -> None:
    match command.words[1:]:
        case ["-m", module, *_]:
            assert find_spec(module)
        case [file, *_]:
            assert (ROOT / file).is_file()


@pytest.mark.parametrize("command", [each for each in of("kubectl") if each.words[1] == "joulie"], ids=ids)
def test_the_plugin_accepts_the_arguments(command: Command) -> None:
    arguments = [PLACEHOLDERS.get(word, word) for word in command.words[2:]]
    if "--help" in arguments:
        with pytest.raises(SystemExit, match="0"):
            make_parser().parse_args(arguments)
    else:
        make_parser().parse_args(arguments)


@pytest.mark.parametrize("page", PAGES)
def test_the_yaml_of_a_page_can_be_read(page: str) -> None:
    for indent, block in re.findall(r"^( *)```yaml\n(.*?)^ *```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL):
        lines = [line.removeprefix(indent) for line in block.splitlines()]
        assert all(isinstance(each, dict) for each in yaml.safe_load_all("\n".join(lines))), block
