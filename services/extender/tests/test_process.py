"""The command, as a process of its own against the in-process API server."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator

import aiohttp
import pytest

from joulie_testing.api import make_node, make_pod


@pytest.fixture
async def process(fake_api, make_twin, tmp_path) -> AsyncIterator[tuple[asyncio.subprocess.Process, dict[str, str]]]:
    """A running extender and the URLs of its two ports by name."""
    fake_api.put_all([make_node("eco"), make_twin("eco", "eco")])
    env = {
        **os.environ,
        "KUBECONFIG": str(fake_api.kubeconfig(tmp_path)),
        "EXTENDER_ADDR": "127.0.0.1:0",
        "METRICS_ADDR": "127.0.0.1:0",
    }
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "joulie_extender", env=env, stdout=asyncio.subprocess.PIPE
    )
    try:
        urls: dict[str, str] = {}
        async with asyncio.timeout(30):
            while len(urls) < 2:
                line = json.loads(await started.stdout.readline())
                if line["event"] == "listening":
                    urls[line["name"]] = f"http://127.0.0.1:{line['port']}"
            while json.loads(await started.stdout.readline()).get("nodes") is None:
                pass
        yield started, urls
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()


async def test_the_process_answers_on_both_ports_and_ends_on_sigterm(process):
    started, urls = process
    async with aiohttp.ClientSession() as http:
        body = {"Pod": make_pod(workload_class="performance"), "Nodes": None, "NodeNames": ["eco"]}
        async with http.post(f"{urls['extender']}/filter", json=body) as answer:
            assert set((await answer.json())["FailedNodes"]) == {"eco"}
        for url in (f"{urls['extender']}/healthz", f"{urls['metrics']}/healthz", f"{urls['metrics']}/readyz"):
            async with http.get(url) as answer:
                assert answer.status == 200, await answer.text()
        async with http.get(f"{urls['metrics']}/metrics") as answer:
            assert 'joulie_scheduler_filter_requests_total{workload_class="performance"} 1.0' in await answer.text()
    started.terminate()
    async with asyncio.timeout(15):
        await started.stdout.read()
        assert await started.wait() == 0
