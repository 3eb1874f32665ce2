import pytest

from joulie_actuator import program


@pytest.mark.parametrize(
    ("started", "shown"),
    [
        ("/opt/joulie/bin/joulie-agent", "joulie-agent restore"),
        ("/opt/joulie/bin/joulie-containers", "joulie-containers restore"),
        ("/opt/joulie/lib/python3.11/site-packages/joulie_containers/__main__.py", "joulie-containers restore"),
        ("/usr/bin/pytest", "joulie-agent restore"),
        ("", "joulie-agent restore"),
    ],
)
def test_a_text_names_the_program_that_can_be_run_here(monkeypatch, started, shown):
    monkeypatch.setattr("sys.argv", [started])
    assert program.command("restore") == shown
