import sys

import pytest

from joulie_devcluster.errors import EngineError
from joulie_devcluster.host.command import run


def test_a_command_runs_in_its_directory_with_its_variables_and_those_of_root(tmp_path):
    script = "import os; print(os.getcwd(), os.environ['A'], os.environ['PATH'].endswith(':/usr/sbin:/sbin'))"
    assert run(sys.executable, "-c", script, cwd=tmp_path, env={"A": "b"}) == f"{tmp_path} b True\n"


def test_a_failed_command_is_an_error_with_the_last_40_lines_of_its_output():
    script = "print(*range(50), sep='\\n'); raise SystemExit('the reason')"
    with pytest.raises(EngineError) as failed:
        run(sys.executable, "-c", script)
    heading, *lines = str(failed.value).splitlines()
    assert heading == f"{sys.executable} failed with status 1:"
    assert lines == [*map(str, range(11, 50)), "the reason"]
