import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from joulie_api.app import main
from joulie_api.entry import help_text
from joulie_api.settings import Duration, ServiceSettings


class Example(ServiceSettings):
    reconcile_interval: Duration = 60
    """How long a change may go unnoticed when every event about it is lost."""
    node_name: str
    """The node this process works for."""


async def unused(_settings):
    raise AssertionError("must not start")


def call(argv, env, capsys):
    with pytest.raises(SystemExit) as exit_:
        main("joulie-test", Example, unused, version="1.2", summary="Does things.", argv=argv, env=env)
    out, err = capsys.readouterr()
    return exit_.value.code, out, err


def test_help_describes_every_variable(capsys):
    code, out, err = call(["--help"], {}, capsys)
    assert (code, err) == (0, "")
    assert "Does things." in out
    assert "RECONCILE_INTERVAL  <duration>  default 1m\n    How long a change may go" in out
    assert "NODE_NAME  <text>  required\n    The node this process works for.\n" in out
    assert "METRICS_ADDR  <HOST:PORT>  default :8080" in out
    assert "KUBECONFIG  <text>  unset by default" in out


def test_no_line_of_help_is_wider_than_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "72")
    assert max(len(line) for line in help_text("joulie-test", Example, "Word " * 50).splitlines()) <= 72


def test_version(capsys):
    assert call(["--version"], {}, capsys) == (0, "joulie-test 1.2\n", "")


def test_arguments_are_refused(capsys):
    code, out, err = call(["--verbose"], {}, capsys)
    assert (code, out) == (2, "")
    assert "settings come from the environment" in err


def test_all_invalid_settings_are_reported_before_the_start(capsys):
    code, out, err = call([], {"RECONCILE_INTERVAL": "often"}, capsys)
    assert (code, out) == (2, "")
    assert "  RECONCILE_INTERVAL=often: not a duration; write" in err
    assert "  NODE_NAME: required but not set; set it to text\n" in err
    assert "joulie-test --help" in err


PROGRAM = """
import asyncio, os, sys, threading, time
from joulie_api.app import App, main
from joulie_api.settings import ServiceSettings

async def run(settings):
    async with App(settings, service="joulie-test", version="1", shutdown_timeout_s=CAP) as app:
BODY
        await app.wait()

main("joulie-test", ServiceSettings, run, version="1")
"""


class Process:
    def __init__(self, body, cap=20.0):
        program = PROGRAM.replace("BODY", textwrap.indent(textwrap.dedent(body), " " * 8)).replace("CAP", str(cap))
        env = {**os.environ, "METRICS_ADDR": "127.0.0.1:0", "LOG_LEVEL": "info", "KUBECONFIG": ""}
        self.process = subprocess.Popen(
            [sys.executable, "-c", program], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def until(self, event):
        for line in self.process.stdout:
            found = json.loads(line)
            if found["event"] == event:
                return found
        raise AssertionError(f"ended before {event!r}: {self.process.stderr.read()}")

    def end(self):
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, [json.loads(line) for line in out.splitlines()], err


@pytest.fixture
def start():
    started = []

    def begin(body="pass", **options):
        started.append(Process(body, **options))
        return started[-1]

    yield begin
    for process in started:
        process.process.kill()
        process.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_shuts_the_process_down(start, number):
    process = start("app.spawn('watch', asyncio.Event().wait())")
    assert process.until("listening")["port"] > 0
    process.process.send_signal(number)
    code, logs, err = process.end()
    assert (code, err) == (0, "")
    assert [(log["event"], log.get("signal")) for log in logs] == [("stopping", number.name), ("stopped", None)]


def test_the_start_logs_version_and_changed_settings(start):
    started = start().until("starting")
    assert (started["version"], started["service"]) == ("1", "joulie-test")
    assert started["settings"] == {"metrics_addr": "127.0.0.1:0"}


def test_a_failed_background_task_is_one_line_and_exit_code_1(start):
    process = start(
        """
        async def die():
            raise RuntimeError("no more")
        app.spawn("watch nodes", die())
        """
    )
    code, logs, err = process.end()
    assert (code, err) == (1, "")
    (died,) = [log for log in logs if log["level"] == "error"]
    assert (died["event"], died["task"], died["error"]) == (
        "background task failed",
        "watch nodes",
        "RuntimeError: no more",
    )
    assert "Traceback" in died["exception"]


def test_any_other_failure_is_logged_and_exit_code_1(start):
    code, logs, err = start("raise LookupError('no such cluster')").end()
    assert (code, err) == (1, "")
    (failed,) = [log for log in logs if log["level"] == "error"]
    assert failed["event"] == "service failed"
    assert "LookupError: no such cluster" in failed["exception"]


def test_a_blocked_event_loop_ends_with_the_shutdown_timeout(start):
    process = start(
        """
        async def block():
            try:
                await asyncio.Event().wait()
            finally:
                time.sleep(60)
        app.spawn("driver", block())
        """,
        cap=0.5,
    )
    process.until("listening")
    process.process.send_signal(signal.SIGTERM)
    code, logs, _ = process.end()
    assert code == 1
    assert logs[-1]["event"] == "shutdown timed out"


def test_a_hung_thread_cannot_block_the_exit(start):
    process = start("threading.Thread(target=time.sleep, args=(60,), name='driver').start()")
    process.until("listening")
    process.process.send_signal(signal.SIGTERM)
    code, logs, _ = process.end()
    assert code == 1
    assert (logs[-1]["event"], logs[-1]["threads"]) == ("threads still running at exit", ["driver"])


async def test_a_second_signal_terminates_immediately(start):
    process = start(
        """
        async def linger():
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(60)
        app.spawn("linger", linger())
        """
    )
    process.until("listening")
    process.process.send_signal(signal.SIGTERM)
    process.until("stopping")
    process.process.send_signal(signal.SIGTERM)
    code, _, _ = await asyncio.to_thread(process.end)
    assert code == -signal.SIGTERM


def flagged(argv, env, capsys):
    seen = []

    async def run(settings):
        seen.append(settings)

    with pytest.raises(SystemExit) as exit_:
        main("joulie-test", Example, run, version="1.2", argv=argv, env=env, flags=True)
    return exit_.value.code, seen, capsys.readouterr().err


def test_options_take_precedence_over_the_environment(capsys):
    code, (settings,), _ = flagged(["--node-name", "a", "--reconcile-interval=2m"], {"NODE_NAME": "b"}, capsys)
    assert (code, settings.node_name, settings.reconcile_interval) == (0, "a", 120)


def test_an_unknown_option_and_one_without_a_value_are_refused(capsys):
    assert flagged(["--nodename", "a"], {}, capsys) == (
        2,
        [],
        "joulie-test: unknown argument --nodename; see `joulie-test --help`\n",
    )
    assert flagged(["--node-name"], {}, capsys)[2].startswith("joulie-test: --node-name needs a value")


def test_an_invalid_option_is_reported_like_a_variable(capsys):
    code, _, error = flagged(["--node-name=a", "--reconcile-interval", "often"], {}, capsys)
    assert code == 2
    assert "RECONCILE_INTERVAL=often: not a duration" in error


def test_help_shows_the_options():
    assert "--node-name, NODE_NAME  <text>  required" in help_text("joulie-test", Example, flags=True)
