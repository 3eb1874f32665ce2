"""`joulie-sim record` as a process, and the commands that take what it wrote."""

import asyncio
import json
import signal
import sys

import pytest

from joulie_sim.cli import main
from joulie_testing.api.builders import make_node, make_pod

_DEADLINE_S = 60.0


@pytest.fixture
def command(fake_api, tmp_path):
    """Return the arguments of a process that records the in-process API server."""
    kubeconfig = fake_api.kubeconfig(tmp_path)
    out = tmp_path / "recording"
    return [sys.executable, "-m", "joulie_sim", "record", "--out", str(out), "--kubeconfig", str(kubeconfig)]


async def start(command, *more):
    return await asyncio.create_subprocess_exec(
        *command, *more, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )


async def ended(process):
    async with asyncio.timeout(_DEADLINE_S):
        output, errors = await process.communicate()
    return process.returncode, output.decode(), errors.decode()


async def bound_pods(path, count):
    """Wait until a process has written that many lines of pods."""
    async with asyncio.timeout(_DEADLINE_S):
        while not path.exists() or path.read_bytes().count(b"\n") < count:  # noqa: ASYNC110 - another process writes
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_a_recording_that_run_sweep_and_import_take(
    fake_api, command, tmp_path, capsys, number
) -> None:
    for name in ("n1", "n2"):
        fake_api.put(make_node(name))
    for name in ("a", "b"):
        fake_api.put(make_pod(name, node="n1", cpu="2", memory="1Gi"))
    for name in ("a", "b"):
        condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        fake_api.patch("Pod", name, {"status": {"conditions": [condition]}}, "default")
    process = await start(command)
    await bound_pods(tmp_path / "recording" / "pods.jsonl", 2)
    process.send_signal(number)
    code, output, errors = await ended(process)
    assert code == 0, errors
    assert f"try --recording {tmp_path / 'recording'}" in output
    recorded = ("--recording", str(tmp_path / "recording"))
    assert main(["run", "--arm", "kube_default", *recorded, "--out", str(tmp_path / "run")]) == 0
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert (manifest["nodes"], manifest["summary"]["done"]) == (2, 2)
    arms = ("--arms", "kube_default", "static_partition", "--seeds", "1")
    assert main(["sweep", *arms, *recorded, "--out", str(tmp_path / "sweep")]) == 0
    assert "2 of 2 pods simulated on 2 nodes" in capsys.readouterr().out
    jobs, nodes = tmp_path / "jobs.jsonl", tmp_path / "nodes.jsonl"
    assert main(["import", "recording", recorded[1], "--out", str(jobs), "--nodes-out", str(nodes)]) == 0
    again = ("--jobs", str(jobs), "--nodes", str(nodes), "--out", str(tmp_path / "again"))
    assert main(["run", "--arm", "kube_default", *again]) == 0
    assert json.loads((tmp_path / "again" / "manifest.json").read_text())["summary"] == manifest["summary"]


async def test_a_recording_ends_after_its_duration_and_is_not_overwritten(fake_api, command, tmp_path) -> None:
    fake_api.put(make_node("n1"))
    assert (await ended(await start(command, "--duration", "100ms")))[0] == 0
    before = (tmp_path / "recording" / "recording.jsonl").read_bytes()
    code, _, errors = await ended(await start(command, "--duration", "100ms"))
    assert (code, "is not empty" in errors) == (2, True)
    assert (tmp_path / "recording" / "recording.jsonl").read_bytes() == before


async def test_a_server_that_cannot_be_reached_is_an_error_at_the_start(fake_api, command) -> None:
    await fake_api.stop()
    code, _, errors = await ended(await start(command))
    assert code == 1
    assert "nodes cannot be read" in errors
    assert "Traceback" not in errors
