import asyncio
import threading

import pytest
from prometheus_client import Counter
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from joulie_api.metrics import NodeSeriesCollector, new_registry


@pytest.fixture
def registry():
    return new_registry("joulie-test", "1.2.3")


async def samples(registry):
    text = (await registry.render()).decode()
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def draw(watts):
    family = GaugeMetricFamily("joulie_node_watts", "Draw.", labels=["node"])
    for node, value in watts.items():
        family.add_metric([node], value)
    return [family]


async def test_build_and_process_have_metrics(registry):
    found = await samples(registry)
    assert found["joulie_build_info", ("service", "joulie-test"), ("version", "1.2.3")] == 1
    assert found[("process_resident_memory_bytes",)] > 1_000_000


async def test_a_node_series_vanishes_with_its_node(registry):
    watts = {"n1": 100.0, "n2": 200.0}
    registry.register(NodeSeriesCollector(lambda: draw(watts)))
    assert (await samples(registry))["joulie_node_watts", ("node", "n2")] == 200
    del watts["n2"]
    found = await samples(registry)
    assert ("joulie_node_watts", ("node", "n2")) not in found
    assert found["joulie_node_watts", ("node", "n1")] == 100


@pytest.mark.parametrize("in_thread", [False, True])
async def test_node_series_are_read_on_the_loops_thread_unless_configured_otherwise(registry, in_thread):
    threads = []

    def families():
        threads.append(threading.current_thread())
        return draw({})

    registry.register(NodeSeriesCollector(families, in_thread=in_thread))
    await registry.render()
    assert [thread is threading.current_thread() for thread in threads] == [not in_thread]


async def test_registries_are_separate(registry):
    other = new_registry("other", "0")
    Counter("joulie_things_total", "Things.", registry=registry)
    assert "joulie_things_total" in (await registry.render()).decode()
    assert "joulie_things_total" not in (await other.render()).decode()


async def test_counters_have_no_series_of_their_creation(registry):
    Counter("joulie_things_total", "Things.", registry=registry)
    assert "joulie_things_created" not in (await registry.render()).decode()


async def test_scrapes_at_the_same_time_share_one_rendering(registry):
    calls = []
    registry.register(NodeSeriesCollector(lambda: calls.append(1) or draw({})))
    first, second = await asyncio.gather(registry.render(), registry.render())
    assert first is second
    assert len(calls) == 1
    await registry.render()
    assert len(calls) == 2


async def test_a_scraper_that_disconnects_does_not_cancel_the_answer_of_others(registry):
    impatient = asyncio.create_task(registry.render())
    patient = asyncio.create_task(registry.render())
    await asyncio.sleep(0)
    impatient.cancel()
    assert b"joulie_build_info" in await patient


async def test_a_collector_that_fails_fails_the_scrape_only(registry):
    broken = [True]

    def families():
        if broken:
            raise RuntimeError("no table yet")
        return draw({})

    registry.register(NodeSeriesCollector(families))
    with pytest.raises(RuntimeError, match="no table"):
        await registry.render()
    broken.clear()
    assert b"joulie_build_info" in await registry.render()
