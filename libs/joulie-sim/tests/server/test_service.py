import asyncio
import contextlib

import aiohttp
import pytest
from structlog.testing import capture_logs

from joulie_sim.annotations import CPU_UTILIZATION, DURATION
from joulie_sim.server.service import run
from joulie_sim.server.settings import SimSettings
from joulie_testing.api.builders import make_node, make_pod

DEADLINE_S = 15.0


async def until(check):
    """Wait until `check()` is true, at most until the deadline."""
    async with asyncio.timeout(DEADLINE_S):
        while not await check():  # noqa: ASYNC110 - what is waited for happens behind HTTP
            await asyncio.sleep(0.02)


@pytest.fixture
async def simulator(fake_api, tmp_path):
    """Run a simulator against the in-process API server, 20 simulated seconds per second, and yield its URL."""
    fake_api.put(make_node("n1", cpu=64, cpu_model="AMD-EPYC-7742", cpu_sockets=2))
    settings = SimSettings(
        kubeconfig=str(fake_api.kubeconfig(tmp_path)), metrics_addr="127.0.0.1:0", sim_speed=20.0, sim_pod_ttl=0.3
    )
    with capture_logs() as logs:
        service = asyncio.create_task(run(settings))
        try:
            async with asyncio.timeout(DEADLINE_S):
                while not (ports := [log["port"] for log in logs if log["event"] == "listening"]):
                    assert not service.done(), service.exception()
                    await asyncio.sleep(0.02)
            yield f"http://127.0.0.1:{ports[0]}"
        finally:
            service.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await service


async def test_a_pod_draws_power_completes_and_is_deleted_after_its_time_to_live(fake_api, simulator):
    marks = {DURATION: "10", CPU_UTILIZATION: "1"}
    async with aiohttp.ClientSession(simulator) as http:

        async def telemetry():
            async with http.get("/telemetry/n1") as answer:
                return await answer.json() if answer.status == 200 else {}

        async def known():
            return bool(await telemetry())

        await until(known)
        idle_watts = (await telemetry())["packagePowerWatts"]
        fake_api.put(make_pod("p1", node="n1", cpu=64, annotations=marks))

        async def busy():
            return (await telemetry())["packagePowerWatts"] > idle_watts

        async def succeeded():
            pod = fake_api.get("Pod", "p1", "default")
            return pod is not None and pod["status"]["phase"] == "Succeeded"

        async def gone():
            return fake_api.get("Pod", "p1", "default") is None

        await until(busy)
        assert (await telemetry())["packagePowerWatts"] == pytest.approx(2 * 225)
        await until(succeeded)
        await until(gone)
        async with http.get("/metrics") as answer:
            text = await answer.text()
        assert 'joulie_sim_completed_jobs_total{workload_class="standard"} 1.0' in text
        assert 'joulie_sim_power_watts{node="n1",part="cpu"}' in text
        async with http.get("/healthz") as alive, http.get("/readyz") as ready:
            assert (alive.status, ready.status) == (200, 200)
