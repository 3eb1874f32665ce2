"""What is generated is committed as generated."""

import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "command",
    [
        ["docs/reference.py", "--check"],
        ["docs/policy_pages.py", "--check"],
        ["-m", "joulie_api.crds", "helm/joulie/crds", "--check"],
        ["helm/rules.py", "--check"],
    ],
    ids=["settings", "policies", "crds", "rbac"],
)
def test_a_generated_file_is_what_its_generator_writes(command: list[str]) -> None:
    run = subprocess.run([sys.executable, *command], cwd=_ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
