"""Generated files are up to date."""

import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "command",
    [
        ["settings_page"],
        ["policy_page"],
        ["score_page"],
        ["crd_page"],
        ["metrics_page"],
        ["kubectl_page"],
        ["mutants_page"],
        ["placement_drawings"],
        ["crds", "helm/joulie/crds"],
        ["chart_rules"],
        ["chart_schema"],
        ["chart_presets"],
        ["dashboards"],
        ["protos"],
    ],
    ids=lambda command: command[0],
)
def test_a_generated_file_is_up_to_date(command: list[str]) -> None:
    run = subprocess.run(
        [sys.executable, "-m", f"tools.{command[0]}", *command[1:], "--check"],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
