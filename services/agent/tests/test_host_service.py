"""The whole agent on a fake two-socket machine: real watches, and the actuator in this process or behind a socket."""

import os
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager

import pytest

from joulie_testing.agent.fake_sysfs import FakeMachine
from joulie_testing.agent.machine_spec import PLATFORMS
from joulie_testing.api import make_node, make_pod

ON_HOST = {
    "AGENT_MODE": "daemonset",
    "NODE_NAME": "n1",
    "TELEMETRY_CPU_SOURCE": "host",
    "TELEMETRY_CPU_CONTROL": "host",
    "TELEMETRY_GPU_CONTROL": "host",
}
ECO = {"cpu": {"packagePowerCapPctOfMax": 60}}


@pytest.fixture
def machine(tmp_path):
    return FakeMachine(tmp_path / "machine", PLATFORMS["xeon-2s"])


def limits_watts(machine):
    return [machine.read(path) / 1e6 for path in machine.limits()]


@asynccontextmanager
async def in_process(machine, tmp_path):
    yield {
        "HARDWARE_ACCESS": "in-process",
        "HOST_SYS_ROOT": str(machine.sys),
        "HOST_PROC_ROOT": str(machine.proc),
        "STATE_DIR": str(tmp_path / "state"),
    }


@asynccontextmanager
async def behind_a_socket(machine, tmp_path):
    path = str(tmp_path / "socket")
    actuator = subprocess.Popen(  # noqa: ASYNC220 - a test may wait
        [sys.executable, "-m", "joulie_agent", "actuator"],
        env={
            **os.environ,
            "HOST_SYS_ROOT": str(machine.sys),
            "HOST_PROC_ROOT": str(machine.proc),
            "STATE_DIR": str(tmp_path / "state"),
            "ACTUATOR_SOCKET": path,
        },
        stdout=subprocess.PIPE,
    )
    try:
        while b"listening" not in actuator.stdout.readline():
            assert actuator.poll() is None
        yield {"ACTUATOR_SOCKET": path}
    finally:
        actuator.send_signal(signal.SIGTERM)
        actuator.communicate(timeout=30)
    assert limits_watts(machine) == [150, 150]


@pytest.mark.parametrize("actuator", [in_process, behind_a_socket])
async def test_a_target_reaches_the_packages_and_is_lifted_with_its_profile(actuator, cluster, machine, tmp_path):
    cluster.api.put(make_node("n1"))
    cluster.set_target("n1", **ECO)
    async with actuator(machine, tmp_path) as env:
        await cluster.start_agent(**ON_HOST, **env)
        report = await cluster.until_reported("n1", result="applied", enforcedWatts=90)
        assert (report["backend"], report["reason"]) == ("rapl", "Capped")
        assert limits_watts(machine) == [90, 90]
        hardware = cluster.api.get("NodeHardware", "n1")["status"]
        assert (hardware["cpu"]["sockets"], hardware["cpu"]["totalCores"]) == (2, 16)
        assert hardware["cpu"]["capRange"]["maxWattsPerSocket"] == 150
        assert hardware["capabilities"]["cpuControl"]
        assert not hardware["capabilities"]["gpuControl"]
        cluster.api.remove("NodePowerProfile", "n1")
        await cluster.until_reported("n1", reason="NoProfile")
        assert limits_watts(machine) == [150, 150]
        await cluster.agents[0].kill()


async def test_a_node_whose_agent_has_no_vendor_library_keeps_the_gpus_of_its_resources(cluster, machine, tmp_path):
    cluster.api.put(make_node("n1", gpus=8, gpu_model="NVIDIA-H100-80GB-HBM3"))
    async with in_process(machine, tmp_path) as env:
        await cluster.start_agent(**ON_HOST, **env)
        await cluster.until_reported("n1", reason="NoProfile")
        hardware = cluster.api.get("NodeHardware", "n1")["status"]
        assert (hardware["gpu"]["present"], hardware["gpu"]["count"]) == (True, 8)
        assert hardware["gpu"]["capRangePerGpu"]["maxWatts"] == 700
        assert hardware["quality"]["facts"] == {"cpu": "seen", "gpu": "labelled", "memory": "seen"}
        await cluster.agents[0].kill()


async def test_energy_by_pod_is_served_with_what_it_lacks(cluster, machine, tmp_path):
    cgroup = tmp_path / "cgroup"
    (cgroup / "kubepods").mkdir(parents=True)
    (cgroup / "cgroup.controllers").touch()
    (cgroup / "cpu.stat").write_text("usage_usec 5000000\n")
    cluster.api.put(make_node("n1"))
    async with in_process(machine, tmp_path) as env:
        agent = await cluster.start_agent(**ON_HOST, **env, ENERGY_BY_POD="true", HOST_CGROUP_ROOT=str(cgroup))
        await cluster.until_reported("n1", reason="NoProfile")
        source = 'joulie_energy_source_available{source="%s"}'
        while (found := await agent.series("n1")).get(source % "cpu_counters") is None:
            pass
        assert [found[source % each] for each in ("cpu_counters", "gpu_counters", "cpu_time")] == [1.0, 1.0, 1.0]
        assert found['joulie_node_energy_joules_total{device="cpu",part="pods"}'] == 0.0
        await agent.kill()


async def test_a_pod_that_has_ended_has_a_receipt(cluster, machine, tmp_path, monkeypatch):
    monkeypatch.setattr("joulie_agent.energy.follow.INTERVAL_S", 0.1)
    monkeypatch.setattr("joulie_core.attribution.receipts.SETTLE_S", 0.5)
    cgroup, uid = tmp_path / "cgroup", "11111111-2222-3333-4444-555555555555"
    (cgroup / "kubepods" / f"pod{uid}").mkdir(parents=True)
    (cgroup / "cgroup.controllers").touch()
    pod = make_pod("train", "ml", node="n1", phase="Running")
    pod["metadata"]["uid"] = uid
    cluster.api.put_all([make_node("n1"), pod])
    energy = {"ENERGY_BY_POD": "true", "ENERGY_RECEIPTS": "true", "HOST_CGROUP_ROOT": str(cgroup)}
    async with in_process(machine, tmp_path) as env:
        agent = await cluster.start_agent(**ON_HOST, **env, **energy)
        last, used_us = time.monotonic(), 0
        while 'namespace="ml"' not in "".join(await agent.series("n1")):
            seconds, last = time.monotonic() - last, time.monotonic()
            for zone in machine.zones():
                machine.consume(zone, 90.0 * seconds)
            used_us += int(seconds * 1e6)
            for stat in (cgroup / "cpu.stat", cgroup / "kubepods" / f"pod{uid}" / "cpu.stat"):
                stat.write_text(f"usage_usec {used_us}\n")
        cluster.api.put({**pod, "status": {**pod["status"], "phase": "Succeeded"}})
        await cluster.api.wait_for(lambda: cluster.api.count("Event"))
        await agent.kill()
    (event,) = cluster.api.objects("Event")
    about = event["involvedObject"]
    assert (event["reason"], about["name"], about["uid"]) == ("EnergyReceipt", "train", uid)
    assert "J), allocated" in event["message"]


async def test_without_energy_by_pod_there_is_no_series_of_it(cluster, machine, tmp_path):
    cluster.api.put(make_node("n1"))
    async with in_process(machine, tmp_path) as env:
        agent = await cluster.start_agent(**ON_HOST, **env)
        await cluster.until_reported("n1", reason="NoProfile")
        assert not any("energy" in name for name in await agent.series("n1") if "rapl" not in name)
        await agent.kill()


async def test_a_machine_whose_power_cannot_be_capped_is_throttled(cluster, tmp_path):
    machine = FakeMachine(tmp_path / "machine", PLATFORMS["xeon-read-only"])
    cluster.api.put(make_node("n1"))
    cluster.set_target("n1", **ECO)
    async with in_process(machine, tmp_path) as env:
        await cluster.start_agent(**ON_HOST, **env)
        report = await cluster.until_reported("n1", backend="dvfs")
        assert "read-only" in report["message"]
        await cluster.agents[0].kill()


async def test_without_an_actuator_the_report_is_blocked_and_names_the_socket(cluster, tmp_path):
    cluster.api.put(make_node("n1"))
    cluster.set_target("n1", cpu={"packagePowerCapWatts": 120})
    await cluster.start_agent(**ON_HOST, ACTUATOR_SOCKET=str(tmp_path / "nowhere"))
    report = await cluster.until_reported("n1", result="blocked", reason="NoHostInterface")
    assert str(tmp_path / "nowhere") in report["message"]


async def test_somebody_elses_cap_is_written_over_at_the_next_tick_and_counted(cluster, machine, tmp_path):
    cluster.api.put(make_node("n1"))
    cluster.set_target("n1", **ECO)
    async with in_process(machine, tmp_path) as env:
        agent = await cluster.start_agent(**ON_HOST, **env)
        await cluster.until_reported("n1", result="applied", enforcedWatts=90)
        machine.write(machine.limits()[0], 120_000_000)
        while (await agent.series("n1")).get('joulie_external_writes_overwritten_total{subsystem="cpu"}') != 1:
            pass
        assert limits_watts(machine) == [90, 90]
        await agent.kill()
    assert limits_watts(machine) == [120, 150]


@pytest.mark.parametrize(
    ("choice", "report"),
    [
        (None, {"reason": "LostControl"}),
        ("restore", {"reason": "LostControl"}),
        ("hold", {"result": "applied", "enforcedWatts": 90}),
        ("floor", {"result": "applied", "enforcedWatts": 60}),
    ],
)
async def test_a_target_that_cannot_be_refreshed_is_treated_by_its_policy(
    choice, report, cluster, machine, monkeypatch
):
    cluster.api.put(make_node("n1"))
    policy = {"name": "static_partition", **({"onLostControl": choice} if choice else {})}
    cluster.set_target("n1", **ECO, policy=policy)
    async with in_process(machine, cluster.directory) as env:
        agent = await cluster.start_agent(**ON_HOST, **env, SPEC_READ_TIMEOUT="1h")
        await cluster.until_reported("n1", result="applied", enforcedWatts=90)
        monkeypatch.setattr("joulie_agent.informers.Informers.targets_age_s", lambda _self: 3601.0)
        await cluster.until_reported("n1", **report)
        watts = report.get("enforcedWatts", 150)
        assert limits_watts(machine) == [watts, watts]
        await agent.kill()


async def test_limits_time_windows_and_energy_beside_the_packages_are_exported(cluster, machine, tmp_path):
    cluster.api.put(make_node("n1"))
    cluster.set_target("n1", **ECO)
    async with in_process(machine, tmp_path) as env:
        agent = await cluster.start_agent(**ON_HOST, **env)
        await cluster.until_reported("n1", result="applied", enforcedWatts=90)
        limit = 'joulie_rapl_limit_watts{constraint="long_term",zone="package-1"}'
        while (series := await agent.series("n1")).get(limit) != 90:
            pass
        assert series['joulie_rapl_limit_watts{constraint="short_term",zone="package-1"}'] == 180
        assert series['joulie_rapl_time_window_seconds{constraint="long_term",zone="package-0"}'] == 0.999424
        assert series['joulie_rapl_domain_energy_uj{domain="package-0/dram"}'] == 0
        await agent.kill()


async def test_an_eco_node_gets_the_configured_preference_and_a_performance_node_its_own(cluster, machine, tmp_path):
    files = [path.replace("scaling_max_freq", "energy_performance_preference") for path in machine.policy_limits()]
    for file in files:
        (machine.sys / file).write_text("balance_performance\n")
    cluster.api.put(make_node("n1"))
    cluster.set_target("n1", profile="eco", **ECO)

    def preferences():
        return {(machine.sys / file).read_text().partition("\n")[0] for file in files}

    async with in_process(machine, tmp_path) as env:
        agent = await cluster.start_agent(**ON_HOST, **env, ECO_ENERGY_PERFORMANCE_PREFERENCE="power")
        await cluster.until_reported("n1", result="applied", enforcedWatts=90)
        assert preferences() == {"power"}
        cluster.set_target("n1", profile="performance", cpu={"packagePowerCapPctOfMax": 100})
        await cluster.until_reported("n1", result="applied", enforcedWatts=150)
        assert preferences() == {"balance_performance"}
        await agent.kill()


async def test_missing_controls_that_were_configured_are_in_the_report(cluster, machine, tmp_path):
    cluster.api.put(make_node("n1"))
    cluster.set_target("n1", profile="eco", **ECO)
    async with in_process(machine, tmp_path) as env:
        agent = await cluster.start_agent(**ON_HOST, **env, ECO_UNCORE_MAX_FREQ_MHZ="1200")
        report = await cluster.until_reported("n1", result="applied", enforcedWatts=90)
        assert "optional controls blocked: no uncore frequency limit" in report["message"]
        await agent.kill()
