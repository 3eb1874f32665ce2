import logging
import warnings

import msgspec
import pytest
import structlog

from joulie_api.logging import configure_logging
from joulie_api.settings import LogFormat, LogLevel


def events(capsys):
    return [msgspec.json.decode(line) for line in capsys.readouterr().out.splitlines()]


def test_an_event_is_one_json_line_on_standard_output(capsys):
    configure_logging("joulie-agent")
    structlog.get_logger().info("cap applied", node="n1", cap_watts=72)
    (event,) = events(capsys)
    assert event.pop("timestamp").endswith("Z")
    assert event == {"event": "cap applied", "level": "info", "service": "joulie-agent", "node": "n1", "cap_watts": 72}


def test_context_variables_are_on_every_line(capsys):
    configure_logging("s")
    with structlog.contextvars.bound_contextvars(reconcile="r1"):
        structlog.get_logger().info("x")
    assert events(capsys)[0]["reconcile"] == "r1"


def test_events_below_the_level_are_dropped(capsys):
    configure_logging("s", LogLevel.WARNING)
    structlog.get_logger().info("no")
    structlog.get_logger().warning("yes")
    assert [event["event"] for event in events(capsys)] == ["yes"]


def test_an_exception_comes_with_its_traceback(capsys):
    configure_logging("s")
    try:
        int("boom")
    except ValueError:
        structlog.get_logger().exception("failed")
    assert "ValueError: invalid literal" in events(capsys)[0]["exception"]


@pytest.mark.parametrize("fmt", LogFormat)
@pytest.mark.parametrize("logger", [structlog.get_logger(), logging.getLogger("library")])
def test_a_traceback_has_no_values_of_local_variables(capsys, fmt, logger):
    configure_logging("s", fmt=fmt)

    def sign_in(password):
        authorization = {"password": password}
        raise ConnectionError(f"refused after {len(authorization)} attempt")

    try:
        sign_in("esrohtcerroc"[::-1])  # not in the line, which the traceback has
    except ConnectionError:
        logger.exception("failed")
    out = capsys.readouterr().out
    assert "sign_in" in out
    assert "refused after 1 attempt" in out
    assert "correcthorse" not in out


def test_values_that_are_no_json_are_written_as_text(capsys):
    configure_logging("s")
    structlog.get_logger().info("x", error=ValueError("v"), by_number={1: "a"})
    event = events(capsys)[0]
    assert (event["error"], event["by_number"]) == ("v", {"1": "a"})


def test_what_libraries_log_has_the_same_shape_from_warnings_up(capsys):
    configure_logging("s")
    logging.getLogger("asyncio").warning("slow %s", "task")
    logging.getLogger("aiohttp").info("chatter")
    (event,) = events(capsys)
    assert (event["event"], event["logger"], event["level"], event["service"]) == (
        "slow task",
        "asyncio",
        "warning",
        "s",
    )


def test_warnings_are_logged(capsys):
    configure_logging("s")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=True)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    assert "DeprecationWarning: old" in events(capsys)[0]["event"]


def test_the_console_format_is_readable(capsys):
    configure_logging("s", fmt=LogFormat.CONSOLE)
    structlog.get_logger().info("cap applied", node="n1")
    out = capsys.readouterr().out
    assert "cap applied" in out
    assert "node=n1" in out
    assert not out.startswith("{")


def test_a_logger_made_before_the_configuration_follows_it(capsys):
    logger = structlog.get_logger()
    configure_logging("late")
    logger.info("x")
    assert events(capsys)[0]["service"] == "late"
