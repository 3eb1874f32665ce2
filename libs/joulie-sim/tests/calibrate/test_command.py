import re
from pathlib import Path

import pytest

from joulie_core.hardware.power_curve import CapResponse
from joulie_sim.calibrate.results import CappedRun
from joulie_sim.cli import main

_DATA = ("specpower/results.csv", "zeus-gpu-caps/p100.csv", "zeus-gpu-caps/rtx6000.csv", "zeus-gpu-caps/v100.csv")
_MODELS_PAGE = Path(__file__).parents[4] / "docs" / "models.md"


@pytest.fixture
def gpu_file(tmp_path):
    law = CapResponse(0.3, 0.4, 0.4, "test")
    runs = [
        CappedRun(limit, 100 / law.retention(limit, 230.0, 0.0), min(limit, 230.0)) for limit in (250.0, 200.0, 150.0)
    ]
    lines = [f"data,net,1,adam,{run.limit_watts},{run.seconds},{run.watts}" for run in runs]
    path = tmp_path / "gpu.csv"
    head = "dataset,network,batch_size,optimizer,power_limit,time_per_epoch,average_power"
    path.write_text("\n".join([head, *lines]), encoding="utf-8")
    return path


@pytest.fixture
def server_file(tmp_path):
    columns = ["idle_watts", *(f"watts_at_{load}pct" for load in range(10, 101, 10))]
    lines = [f"vendor,cpu_model,cpu_make,chips,tdp_watts_per_chip,memory_gib,{','.join(columns)}"]
    for vendor, memory_gib in (("one", 64), ("two", 128), ("three", 256)):
        watts = ",".join(str(60 + 0.1 * memory_gib + 20 * step) for step in range(11))
        lines.append(f"{vendor},AMD EPYC 7763,amd,1,280,{memory_gib},{watts}")
    path = tmp_path / "servers.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_check_prints_the_errors_on_any_file(gpu_file, server_file, capsys):
    assert main(["calibrate", "--check", str(gpu_file), str(server_file)]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^idle and maximum known +3 ", printed, re.MULTILINE)
    assert re.search(r"^measured curve +3 ", printed, re.MULTILINE)
    assert re.search(r"^gpu +1 +2 +0\.\d{3} ", printed, re.MULTILINE)


def test_a_bad_file_is_named_with_line_and_column_and_nothing_is_printed(gpu_file, capsys):
    gpu_file.write_text(gpu_file.read_text().replace(",200.0,", ",low,"), encoding="utf-8")
    assert main(["calibrate", "--check", str(gpu_file)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"joulie-sim calibrate: {gpu_file}:3: column power_limit: 'low'")


def test_a_fit_is_written_once_and_then_unchanged(gpu_file, server_file, tmp_path, capsys):
    output = tmp_path / "constants.toml"
    fit = ["calibrate", "--fit", str(gpu_file), str(server_file), "--output", str(output)]
    assert main([*fit, "--compare"]) == 1
    assert not output.exists()
    assert main(fit) == 0
    text = output.read_text(encoding="utf-8")
    assert "written" in capsys.readouterr().out
    # The order of the files does not matter.
    assert main(["calibrate", "--fit", str(server_file), str(gpu_file), "--output", str(output), "--compare"]) == 0
    assert output.read_text(encoding="utf-8") == text


def test_a_fit_needs_both_kinds_of_results(gpu_file, capsys):
    assert main(["calibrate", "--fit", str(gpu_file)]) == 2
    assert "needs server results too" in capsys.readouterr().err


def test_the_help_has_an_example(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["calibrate", "--help"])
    assert caught.value.code == 0
    assert "joulie-sim calibrate --check specpower/results.csv" in capsys.readouterr().out


def test_the_shipped_constants_are_those_of_the_public_results(public_data, capsys):
    files = [str(public_data(name)) for name in _DATA]
    assert main(["calibrate", "--fit", *files, "--compare"]) == 0, capsys.readouterr().out


def test_the_page_of_the_models_states_the_errors_that_check_prints(public_data, capsys):
    files = [str(public_data(name)) for name in _DATA]
    assert main(["calibrate", "--check", *files, "--left-out"]) == 0
    assert capsys.readouterr().out in _MODELS_PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", _DATA)
def test_each_public_file_can_be_checked_alone(public_data, capsys, name):
    assert main(["calibrate", "--check", str(public_data(name))]) == 0
    # One table, of what the file holds.
    out = capsys.readouterr().out
    assert ("\n" + Path(name).stem in out) == name.startswith("zeus")
    assert ("server" in out.lower()) == name.startswith("specpower")
