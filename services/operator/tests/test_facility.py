"""Facility metrics, and when they are unknown."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from joulie_api.failures import Failures
from joulie_api.prometheus import QueryError
from joulie_core.twin import LinearPue, MeasuredPue
from joulie_operator.facility import Facility, FacilityMetric, MetricScope
from joulie_operator.sources import poll_forever

pytestmark = pytest.mark.looptime


class Answers:
    """A Prometheus that answers from a table."""

    def __init__(self, **values):
        self.values = values
        self.queries = []

    async def value(self, query):
        self.queries.append(query)
        if query not in self.values:
            raise QueryError(f"{query} is not known")
        return self.values[query]


QUERIES = {
    FacilityMetric.AMBIENT_C: "room",
    FacilityMetric.IT_WATTS: "it",
    FacilityMetric.COOLING_WATTS: "cooling",
    FacilityMetric.ZONE_AMBIENT_C: "zone-{zone}",
    FacilityMetric.RACK_WATTS: "rack-{rack}",
}


def facility(answers, queries=QUERIES, zones=("a", "b"), racks=("r1",)):
    return Facility(answers, queries, zones=lambda: zones, racks=lambda: racks, interval_s=30, max_age_s=300)


def now():
    return asyncio.get_running_loop().time()


async def test_figures_come_by_facility_zone_and_rack():
    found = facility(Answers(**{"room": 24, "it": 1000, "cooling": 300, "zone-a": 27, "rack-r1": 12_000}))
    await found.poll()
    assert found.ambient_c("a", now()) == 27
    assert found.ambient_c("b", now()) == 24, "a zone that is not known has the room's"
    assert found.ambient_c(None, now()) == 24
    assert found.rack_watts("r1", now()) == 12_000
    assert found.rack_watts("r2", now()) is None
    assert found.pue(now()) == MeasuredPue(1000, 300)


async def test_a_failed_query_keeps_the_last_value_until_it_is_too_old():
    answers = Answers(room=24)
    found = facility(answers)
    await found.poll()
    answers.values.clear()
    await asyncio.sleep(300)
    await found.poll()
    assert found.ambient_c(None, now()) == 24
    assert found.age_s(MetricScope(FacilityMetric.AMBIENT_C), now()) == pytest.approx(300)
    await asyncio.sleep(1)
    assert found.ambient_c(None, now()) is None


async def test_pue_is_unknown_when_its_metrics_are_and_modelled_when_they_are_not_configured():
    unanswered, unasked = facility(Answers()), facility(Answers(), queries={FacilityMetric.AMBIENT_C: "room"})
    for each in (unanswered, unasked):
        await each.poll()
    assert unanswered.pue(now()).estimate(50) is None
    assert unasked.pue(now()) == LinearPue()


async def test_metrics_that_make_no_pue_are_unknown_and_logged_once():
    answers = Answers(it=1, cooling=1_000_000)
    found = facility(answers)
    with capture_logs() as logs:
        await found.poll()
        await found.poll()
        assert found.pue(now()).estimate(50) is None
        answers.values.update(it=1000, cooling=300)
        await found.poll()
    assert found.pue(now()).estimate(50) == 1.3
    assert [each["event"] for each in logs if "PUE" in each["event"]] == [
        "facility PUE implausible",
        "facility PUE plausible again",
    ]


async def test_metrics_that_are_not_configured_are_not_queried():
    answers = Answers()
    await facility(answers, queries={FacilityMetric.IT_WATTS: "it", FacilityMetric.COOLING_WATTS: ""}).poll()
    assert answers.queries == ["it"]


async def test_metrics_are_queried_once_in_the_interval():
    answers = Answers(it=1000)
    polled = facility(answers, queries={FacilityMetric.IT_WATTS: "it"})
    failures = Failures(CollectorRegistry())
    polling = poll_forever(polled.poll, interval_s=polled.interval_s, failures=failures, work="poll facility")
    task = asyncio.create_task(polling)
    await asyncio.sleep(95)
    assert len(answers.queries) == 4
    task.cancel()
    await asyncio.wait({task})
