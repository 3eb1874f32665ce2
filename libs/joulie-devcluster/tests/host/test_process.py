"""Child processes: lifecycle, signals, log, and being killed with their parent."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from joulie_devcluster.control_plane.state import start_ticks
from joulie_devcluster.errors import StartError
from joulie_devcluster.host.process import ProcessExitedError, ServiceProcess, base_environment, stop_in_order

PYTHON = sys.executable
DEADLINE_S = 10.0


def python(tmp_path: Path, code: str, name: str = "child", env: dict[str, str] | None = None) -> ServiceProcess:
    return ServiceProcess(name, [PYTHON, "-u", "-c", code], log_path=tmp_path / f"{name}.log", env=env)


async def until(condition) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - the kernel signals no event
            await asyncio.sleep(0.01)


def run_in_a_new_loop(coroutine):
    # Not asyncio.run, which replaces the loop that pytest-asyncio keeps as the current one.
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()


async def test_a_process_runs_and_its_log_and_exit_status_are_available(tmp_path):
    process = python(tmp_path, "print('hello'); raise SystemExit(3)")
    await process.start()
    assert await process.wait(DEADLINE_S) == 3
    assert process.log() == "hello\n"
    assert process.returncode == 3
    assert not process.running


async def test_the_pid_is_that_of_the_command(tmp_path):
    process = python(tmp_path, "import os; print(os.getpid())")
    await process.start()
    await process.wait(DEADLINE_S)
    assert int(process.log()) == process.pid


async def test_the_log_of_a_command_that_does_not_exist_contains_the_error(tmp_path):
    process = ServiceProcess("nothing", ["/nonexistent/command"], log_path=tmp_path / "log")
    await process.start()
    assert await process.wait(DEADLINE_S) == 127
    assert "/nonexistent/command: No such file or directory" in process.log()


async def test_waiting_for_a_log_line_returns_its_match(tmp_path):
    process = python(tmp_path, "import time; time.sleep(0.2); print('port=4711'); time.sleep(60)")
    await process.start()
    match = await process.wait_for_log(r"port=(\d+)", DEADLINE_S)
    assert match[1] == "4711"
    await process.stop()


async def test_a_process_that_exits_without_the_line_is_an_error_with_its_log(tmp_path):
    process = python(tmp_path, "print('no such luck'); raise SystemExit(1)")
    await process.start()
    with pytest.raises(ProcessExitedError, match="no such luck") as caught:
        await process.wait_for_log("ready", DEADLINE_S)
    assert caught.value.returncode == 1


async def test_a_missing_line_is_a_timeout_with_the_pattern(tmp_path):
    process = python(tmp_path, "import time; time.sleep(60)")
    await process.start()
    with pytest.raises(TimeoutError, match="ready"):
        await process.wait_for_log("ready", 0.2)
    await process.stop()


async def test_a_line_of_an_earlier_run_does_not_match(tmp_path):
    process = python(tmp_path, "import os, time; print('run', os.environ['RUN']); time.sleep(60)", env={"RUN": "1"})
    await process.start()
    await process.wait_for_log("run 1", DEADLINE_S)
    await process.restart({"RUN": "2"})
    await process.wait_for_log("run 2", DEADLINE_S)
    assert "run 1" not in process.log_of_run()
    assert "run 1" in process.log()
    await process.stop()


async def test_a_paused_process_stops_and_continues_when_resumed(tmp_path):
    process = python(tmp_path, "import time\nwhile True: print('tick'); time.sleep(0.01)")
    await process.start()
    await process.wait_for_log("tick", DEADLINE_S)
    process.pause()
    await until(lambda: Path(f"/proc/{process.pid}/stat").read_text().split(")")[1].split()[0] == "T")
    before = len(process.log())
    await asyncio.sleep(0.1)
    assert len(process.log()) == before
    assert process.running
    process.resume()
    await until(lambda: len(process.log()) > before)
    await process.stop()


async def test_a_paused_process_receives_sigterm_when_it_is_stopped(tmp_path):
    code = "import signal, time\nsignal.signal(signal.SIGTERM, lambda *_: exit(7))\nprint('up')\ntime.sleep(60)"
    process = python(tmp_path, code)
    await process.start()
    await process.wait_for_log("up", DEADLINE_S)
    process.pause()
    assert await process.stop(DEADLINE_S) == 7


async def test_a_process_that_ignores_sigterm_is_killed_after_the_grace_period(tmp_path):
    process = python(
        tmp_path, "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up')\ntime.sleep(60)"
    )
    await process.start()
    await process.wait_for_log("up", DEADLINE_S)
    assert await process.stop(0.2) == -signal.SIGKILL


async def test_a_running_process_cannot_be_started_twice(tmp_path):
    process = python(tmp_path, "import time; time.sleep(60)")
    await process.start()
    with pytest.raises(RuntimeError, match="already running"):
        await process.start()
    await process.stop()


async def test_signalling_a_process_that_has_exited_does_nothing(tmp_path):
    process = python(tmp_path, "pass")
    await process.start()
    await process.wait(DEADLINE_S)
    process.kill()
    assert process.returncode == 0


async def test_groups_stop_one_after_the_other(tmp_path):
    code = "import signal, time\nsignal.signal(signal.SIGTERM, lambda *_: exit(0))\nprint('up')\ntime.sleep(60)"
    first, second = python(tmp_path, code, "first"), python(tmp_path, code, "second")
    for process in (first, second):
        await process.start()
        await process.wait_for_log("up", DEADLINE_S)
    seen = []
    original = second.stop

    async def spy(grace_s):
        seen.append(first.running)
        return await original(grace_s)

    second.stop = spy
    await stop_in_order([[first], [second]])
    assert seen == [False]
    assert not second.running


def test_a_process_started_in_one_event_loop_can_be_awaited_in_another(tmp_path):
    process = python(tmp_path, "import time; time.sleep(0.3)")
    run_in_a_new_loop(process.start())
    assert process.running
    assert run_in_a_new_loop(process.wait(DEADLINE_S)) == 0


def test_children_do_not_inherit_kubeconfig_and_proxy_settings(monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/home/me/production")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy")
    assert {"KUBECONFIG", "HTTP_PROXY"}.isdisjoint(base_environment())
    assert base_environment()["PATH"] == os.environ["PATH"]


@pytest.mark.parametrize("paused", [False, True], ids=["running", "paused"])
def test_children_of_a_killed_parent_are_killed(tmp_path, paused):
    code = f"""
import asyncio, sys, time
from pathlib import Path
from joulie_devcluster.host.process import ServiceProcess
async def main():
    children = []
    for name in "ab":
        argv = [sys.executable, "-u", "-c", "import time; print('up'); time.sleep(600)"]
        child = ServiceProcess(name, argv, log_path=Path({str(tmp_path)!r}) / name)
        await child.start()
        await child.wait_for_log("up", 20)
        children.append(child)
    if {paused}:
        children[0].pause()
    print(*(child.pid for child in children), flush=True)
asyncio.run(main())
time.sleep(600)
"""
    with subprocess.Popen([PYTHON, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        assert all(start_ticks(pid) is not None for pid in pids)
        parent.kill()
    run_in_a_new_loop(until(lambda: all(start_ticks(pid) is None for pid in pids)))


def test_the_error_of_an_exited_process_is_a_start_error():
    assert issubclass(ProcessExitedError, StartError)
