"""The demo as a user runs it: a process, on a real control plane."""

import asyncio
import contextlib
import csv
import json
import math
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from joulie_core.hardware.inventory import Inventory
from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.machines import machines_of
from joulie_sim.engine.simulation import Simulation, SimulationSettings
from joulie_sim.hardware import hardware_of
from joulie_sim.recording.reading import read_recording
from joulie_sim.recording.replay import AssumedUse, replay_recording

pytestmark = pytest.mark.e2e

START_S = 200.0
WHOLE_S = 280.0


def processes_naming(directory: Path):
    """Return the command lines of all processes that contain a directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if str(directory) in line:
                    found.append(line)
    return found


@pytest.fixture
async def start(tmp_path):
    """Return a function that starts a small demo with temporary files and output in `tmp_path`."""
    scratch, out = tmp_path / "scratch", tmp_path / "out"
    scratch.mkdir()
    command = [str(Path(sys.executable).with_name("joulie-demo")), "--nodes", "8", "--duration", "20"]
    started = []

    async def run(*arguments):
        process = await asyncio.create_subprocess_exec(
            *command,
            *arguments,
            "--out",
            str(out),
            env={**os.environ, "TMPDIR": str(scratch), "COLUMNS": "200"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        started.append(process)
        return process

    run.scratch, run.out = scratch, out
    yield run
    for process in started:
        if process.returncode is None:
            process.kill()
            await process.wait()


def assert_nothing_left(start):
    assert list(start.scratch.iterdir()) == []
    assert [line for line in processes_naming(start.scratch) if "joulie-demo" not in line] == []


async def test_a_run_ends_with_every_pod_completed_and_performance_pods_on_performance_nodes(start):
    process = await start("--pods", "16", "--policy", "queue_aware_v1")
    async with asyncio.timeout(WHOLE_S):
        output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    assert re.search(r"live page: http://127\.0\.0\.1:\d+/ui/", output.decode())
    (directory,) = start.out.iterdir()
    files = {"samples.csv", "pods.csv", "summary.json", "watts.png", "recording"}
    assert {path.name for path in directory.iterdir()} == files
    summary = json.loads((directory / "summary.json").read_text())
    assert sum(pods["finished"] for pods in summary["pods"].values()) == 16
    performance = summary["pods"]["performance"]
    assert performance["placedOn"] == {"performance": performance["created"]}
    assert summary["energyKwh"]["performance"] > 0.0
    error_pct = abs(summary["withoutJoulie"]["errorPct"])
    assert error_pct < 15.0
    assert f"the simulator's error of {error_pct:.1f} %" in output.decode()
    assert summary["sleep"] is None
    assert_recorded(directory)
    assert_nothing_left(start)


async def test_nodes_of_a_run_without_options_sleep_and_every_pod_completes(start):
    process = await start("--nodes", "20", "--pods", "60", "--duration", "40")
    async with asyncio.timeout(WHOLE_S):
        output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    (directory,) = start.out.iterdir()
    summary = json.loads((directory / "summary.json").read_text())
    assert sum(pods["finished"] for pods in summary["pods"].values()) == 60
    assert summary["simulatedSecondsPerSecond"] == 60.0
    slept, compared = summary["sleep"], summary["withoutJoulie"]
    # Half of a zone at most, and none that a pod is on.
    assert 1 <= slept["mostAsleep"] <= 10
    assert slept["powerOffs"] >= slept["mostAsleep"]
    assert 0.0 < slept["energyKwh"]["asleep"] < slept["energyKwh"]["awake"]
    assert sum(slept["energyKwh"].values()) == pytest.approx(sum(summary["energyKwh"].values()), rel=0.05)
    assert compared["measured"]["powerOffs"] == slept["powerOffs"]
    assert compared["withoutJoulie"]["powerOffs"] == 0
    assert compared["savedPctLowest"] <= compared["savedPct"] <= compared["savedPctHighest"]
    with (directory / "samples.csv").open() as file:
        samples = list(csv.DictReader(file))
    for row in samples:
        assert sum(int(row[f"{power}_nodes"]) for power in ("awake", "waking", "asleep")) == 20
        assert float(row["asleep_watts"]) == pytest.approx(15.0 * int(row["asleep_nodes"]))
    assert_nothing_left(start)


def assert_recorded(directory):
    """Every pod is in the recording of the real API server, with its times to the second, and is simulated."""
    with (directory / "pods.csv").open() as file:
        tracks = {f"default/{row['pod']}": row for row in csv.DictReader(file)}
    recording = read_recording(directory / "recording")
    assert (recording.ended, recording.gaps, len(recording.nodes)) == (True, (), 8)
    replayed = replay_recording(recording, AssumedUse())
    assert {item.name for item in replayed.items} == tracks.keys()
    hardware = {node.name: hardware_of(node, Inventory.load()) for node in recording.nodes}
    for item in replayed.items:
        track = tracks[item.name]
        work_per_s = hardware[track["node"]].work_per_s(gpus=item.gpus > 0)
        assert item.work_s / work_per_s == pytest.approx(float(track["finished_s"]) - float(track["bound_s"]), abs=3.0)
        assert item.gpus == 0 or item.gpu_resource.endswith(".recorded/gpu")
    result = Simulation(
        machines_of(replayed.nodes, Inventory.load()),
        Jobs.of(replayed.items),
        ARMS["kube_default"],
        SimulationSettings(),
    ).run()
    assert not any(map(math.isnan, result.jobs.ended_s))


async def test_ctrl_c_leaves_only_the_output_directory(start):
    process = await start("--pods", "200")
    async with asyncio.timeout(START_S):
        while b"pods sent" not in (line := await process.stdout.readline()):
            assert line, "the demo ended by itself"
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(60.0):
        await process.communicate()
    assert process.returncode == 130
    (directory,) = start.out.iterdir()
    assert (directory / "watts.png").stat().st_size > 0
    assert_nothing_left(start)
