"""`kubectl joulie energy --since` by a real Prometheus: of a day that is over, and of agents that it scrapes."""

import json
import time
from contextlib import AsyncExitStack

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from prometheus_client import generate_latest
from prometheus_client.samples import Sample
from tests.e2e.plugin import Plugin
from tests.e2e.waiting import eventually
from tests.energy_history import LOWER, UPPER, AgentSeries, PastSeries, needs_promtool
from tests.prometheus_server import PrometheusServer, needs_prometheus

from joulie_api.metrics import NodeSeriesCollector, Registry
from joulie_core.attribution.sums import OTHER, PodOwner

pytestmark = [needs_prometheus, needs_promtool]
DAY_S = 86_400
KWH = 3.6e6
WEB, TRAIN = PodOwner("shop", "deployment/web"), PodOwner("ml", "job/train")


@pytest.fixture
async def past(fake_api, tmp_path):
    """Starts a Prometheus with stored series; returns a function that runs the verb, and its data."""
    servers = []

    async def begin(series):
        await series.store(tmp_path)
        server = PrometheusServer(tmp_path, {})
        servers.append(server)
        await server.start()
        plugin = Plugin(fake_api.kubeconfig(tmp_path))

        async def energy(*arguments, code=0):
            return await plugin.run("energy", "--prometheus", server.url, *arguments, code=code)

        return energy

    yield begin
    for server in servers:
        await server.stop()


async def data_of(energy, *arguments):
    return json.loads(await energy(*arguments, "-o", "json"))


async def test_the_energy_of_a_day_is_by_workload_with_bounds_over_nodes_restarts_and_gaps(past):
    now = time.time()
    series = PastSeries()
    series.add_agent(AgentSeries("n1", {WEB: 100.0, OTHER: 5.0}), now - 2 * DAY_S, now)
    # It starts again at zero at noon.
    series.add_agent(AgentSeries("n2", {WEB: 50.0, TRAIN: 400.0}), now - 2 * DAY_S, now - DAY_S / 2)
    series.add_agent(AgentSeries("n2", {WEB: 50.0, TRAIN: 400.0}), now - DAY_S / 2 + 30, now)
    # It was added six hours ago.
    series.add_agent(AgentSeries("n3", {TRAIN: 200.0}), now - DAY_S / 4, now)
    energy = await past(series)

    found = await data_of(energy, "--since", "24h")

    joules = {(row["namespace"], row["workload"]): row["joules"] for row in found["workloads"]}
    assert joules == {
        ("shop", "deployment/web"): pytest.approx(150 * DAY_S, rel=0.002),
        ("ml", "job/train"): pytest.approx(400 * DAY_S + 200 * DAY_S / 4, rel=0.002),
        ("", "other"): pytest.approx(5 * DAY_S, rel=0.002),
    }
    for row in found["workloads"]:
        assert row["lowerJoules"] == pytest.approx(LOWER * row["joules"], rel=0.001)
        assert row["upperJoules"] == pytest.approx(UPPER * row["joules"], rel=0.001)
        assert (row["device"], row["kind"]) == ("cpu", "allocated")
    assert found["partsJoules"] == {
        "pods": pytest.approx(sum(joules.values()), rel=0.001),
        "idle": pytest.approx(22.5 * DAY_S, rel=0.002),
        "unattributed": 0.0,
    }
    assert found["unknownSeconds"] == pytest.approx(0.01 * 2.25 * DAY_S, rel=0.002)
    assert {name: node["seenShare"] for name, node in found["nodes"].items()} == {
        "n1": 1.0,
        "n2": 1.0,
        "n3": pytest.approx(0.25, abs=0.02),
    }
    text = " ".join((await energy("--since", "1d", "--by", "namespace")).split())
    assert "shop - cpu allocated 3.600 1.800 5." in text
    assert "- - cpu allocated 0.120 0.060 0.180" in text
    assert "3 nodes had series, 1 of them for a part of the time only: n3 25%" in text


async def test_one_namespace_is_asked_for_alone_and_shorter_times_have_less(past):
    now = time.time()
    series = PastSeries()
    series.add_agent(AgentSeries("n1", {WEB: 100.0, TRAIN: 50.0}), now - DAY_S / 4, now)
    energy = await past(series)

    (row,) = (await data_of(energy, "--since", "90m", "-n", "ml"))["workloads"]

    assert row["workload"] == "job/train"
    assert row["joules"] == pytest.approx(50 * 5_400, rel=0.02)
    assert "No workload has a series of that time." in await energy("--since", "24h", "-n", "empty")


def kepler(name, watts, **labels):
    return lambda seconds: Sample(name, labels, watts * seconds)


async def test_keplers_packages_are_added_up_by_pod_and_what_its_earlier_generation_has_is_named(past):
    now = time.time()
    pod = {"pod_id": "u1", "pod_name": "web-1", "pod_namespace": "shop", "node_name": "n1"}
    name, earlier = "kepler_pod_cpu_joules_total", "kepler_container_package_joules_total"
    samples = [
        kepler(name, 40.0, **pod, state="running", zone="package"),
        kepler(name, 0.0, **pod, state="terminated", zone="package"),
        kepler(name, 9.0, **pod, state="running", zone="dram"),
        kepler(name, 30.0, **pod, state="running", zone="core"),
        kepler(earlier, 70.0, container_namespace="shop", pod_name="web-1", container_name="a", mode="dynamic"),
        kepler("kepler_node_cpu_joules_total", 90.0, node_name="n1", zone="package"),
    ]
    series = PastSeries()
    for number in range(24 * 60 + 1):
        series.add([each(number * 60.0) for each in samples], now - DAY_S + number * 60.0)
    energy = await past(series)

    found = await data_of(energy, "--since", "24h", "--source", "kepler")

    assert found["pods"] == [
        {
            "namespace": "shop",
            "pod": "web-1",
            "device": "cpu",
            "kind": "allocated",
            "rule": "kepler",
            "joules": pytest.approx(40.0 * DAY_S, rel=0.002),
            "lowerJoules": None,
            "upperJoules": None,
        }
    ]
    assert list(found["nodes"]) == ["n1"]
    text = " ".join((await energy("--since", "24h", "--source", "kepler", "--by", "namespace")).split())
    assert "shop - cpu allocated 0.960 - -" in text
    assert "Kepler before 0.10 has series of that time, too" in text
    assert "no series joulie_workload_energy_joules_total" in " ".join((await energy("--since", "24h", code=3)).split())


async def test_energy_of_earlier_kepler_is_without_its_idle_part(past):
    now = time.time()
    name = "kepler_container_package_joules_total"
    labels = {"container_namespace": "shop", "pod_name": "web-1"}
    samples = [
        kepler(name, 40.0, **labels, container_name="a", mode="dynamic"),
        kepler(name, 20.0, **labels, container_name="b", mode="dynamic"),
        kepler(name, 33.0, **labels, container_name="a", mode="idle"),
        kepler("kepler_node_package_joules_total", 90.0, instance="n1:9102", mode="dynamic"),
    ]
    series = PastSeries()
    for number in range(361):
        series.add([each(number * 60.0) for each in samples], now - DAY_S / 4 + number * 60.0)
    energy = await past(series)

    (row,) = (await data_of(energy, "--since", "3h", "--source", "kepler"))["pods"]

    assert row["joules"] == pytest.approx(60.0 * DAY_S / 8, rel=0.01)
    assert "n1:9102" in await energy("--since", "24h", "--source", "kepler")


async def test_namespaces_are_those_of_the_workloads_as_the_scrape_keeps_them_and_never_those_of_the_target(
    fake_api, tmp_path
):
    began_s = time.time()
    agent = AgentSeries("n1", {WEB: 100.0, OTHER: 10.0})
    registry = Registry()
    registry.register(NodeSeriesCollector(lambda: agent.families(time.time() - began_s)))

    async def scraped(_request):
        return web.Response(body=generate_latest(registry))

    app = web.Application()
    app.router.add_get("/metrics", scraped)
    plugin = Plugin(fake_api.kubeconfig(tmp_path))
    labels = {"namespace": "joulie-system"}
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(TestServer(app))
        urls = []
        for keeps in (True, False):
            directory = tmp_path / f"honor-{keeps}"
            directory.mkdir()
            server = PrometheusServer(directory, {"agent": [served.port]}, labels=labels, honor_labels=keeps)
            await server.start()
            stack.push_async_callback(server.stop)
            urls.append(server.url)

        async def kept():
            found = json.loads(await plugin.run("energy", "--since", "1m", "--prometheus", urls[0], "-o", "json"))
            rows = {(row["namespace"], row["workload"]): row["joules"] for row in found["workloads"]}
            assert set(rows) == {("shop", "deployment/web"), ("", "other")}
            assert rows["shop", "deployment/web"] == pytest.approx(10 * rows["", "other"], rel=0.01)
            assert 0.0 < rows["shop", "deployment/web"] < 100.0 * (time.time() - began_s + 2.0)

        async def replaced():
            for names in ([], ["-n", "shop"]):
                arguments = ("--since", "1m", "--prometheus", urls[1], *names)
                text = " ".join((await plugin.run("energy", *arguments, code=3)).split())
                assert "the agents' series have the label exported_namespace" in text
                assert "honor_labels: true" in text

        await eventually(kept, within_s=30)
        await eventually(replaced, within_s=30)
