"""`energy --since` against a stand-in for Prometheus; tests/integration/test_energy_since.py has the real one."""

import json

import pytest

from joulie_testing.cli import flat, words
from joulie_testing.prometheus import answer, increase_query, series

KWH = 3.6e6


def energy(kwh, namespace, workload, device="cpu", kind="allocated"):
    """Return the three series of a workload."""
    named = {"workload": workload, "device": device, "kind": kind}
    labels = {**({"namespace": namespace} if namespace else {}), **named}
    figures = (("energy", 1.0), ("lower", 0.5), ("upper", 2.0))
    return [series(figure, kwh * factor * KWH, **labels) for figure, factor in figures]


PARTS = [
    series("parts", 6 * KWH, part="pods"),
    series("parts", 3 * KWH, part="idle"),
    series("parts", 1 * KWH, part="unattributed"),
]
SEEN = [series("seen", 101, node="n1"), series("seen", 40, node="n2"), series("seen", 7, node="n3")]
SEEN_COUNT = "count_over_time((group by (node) (joulie_node_energy_unknown_seconds_total))[86400s:864s])"
REPLACED = 'count(count_over_time(joulie_workload_energy_joules_total{exported_namespace!=""}[86400s]))'
ALL = [
    *energy(4.0, "ml", "job/train", "gpu", "measured"),
    *energy(2.0, "shop", "deployment/web"),
    *PARTS,
    series("unknown", 90),
    *SEEN,
]


@pytest.fixture(autouse=True)
def _with_workloads(fake):
    fake.body = answer(*ALL)


async def test_one_query_asks_for_all_figures_of_the_time(fake, since):
    assert (await since()).code == 0

    ((method, path, query),) = fake.requests
    assert (method, path, set(query)) == ("GET", "/api/v1/query", {"query"})
    by = "namespace, workload, device, kind"
    assert query["query"].split(" or ") == [
        increase_query("joulie_workload_energy_joules_total", by, "", "energy"),
        increase_query("joulie_workload_energy_lower_joules_total", by, "", "lower"),
        increase_query("joulie_workload_energy_upper_joules_total", by, "", "upper"),
        increase_query("joulie_node_energy_joules_total", "part", "", "parts"),
        increase_query("joulie_node_energy_unknown_seconds_total", "", "", "unknown"),
        f'label_replace({SEEN_COUNT}, "joulie_figure", "seen", "", "")',
        f'label_replace({REPLACED}, "joulie_figure", "replaced", "", "")',
    ]


async def test_prometheus_adds_up_one_namespace_or_all_of_them_by_namespace(fake, since):
    await since("-n", "ml", "--by", "namespace")

    ((_, _, query),) = fake.requests
    by = "namespace, device, kind"
    expected = increase_query("joulie_workload_energy_joules_total", by, 'namespace="ml"', "energy")
    assert query["query"].startswith(expected)
    assert "joulie_node_energy_joules_total{}" in query["query"]


async def test_the_table_is_that_of_the_sums_since_the_start(since):
    result = await since()

    assert words(result.out)[:3] == [
        ["NAMESPACE", "WORKLOAD", "DEVICE", "KIND", "kWh", "FROM", "TO"],
        ["ml", "job/train", "gpu", "measured", "4.000", "2.000", "8.000"],
        ["shop", "deployment/web", "cpu", "allocated", "2.000", "1.000", "4.000"],
    ]
    text = flat(result.out)
    assert "All nodes: pods 6.000 kWh, idle 3.000 kWh, unattributed 1.000 kWh." in text
    assert "No counter told the energy of 90s" in text
    assert "The last 24h to 2026-06-01T18:00:00Z" in text
    assert "3 nodes had series, 2 of them for a part of the time only: n3 7%, n2 40%; energy of the rest" in text
    assert (result.code, result.err) == (0, "")


async def test_the_energy_of_a_time_is_also_data(since):
    data = json.loads((await since("-o", "json")).out)

    assert data["workloads"][0] == {
        "namespace": "ml",
        "workload": "job/train",
        "device": "gpu",
        "kind": "measured",
        "joules": 4 * KWH,
        "lowerJoules": 2 * KWH,
        "upperJoules": 8 * KWH,
    }
    del data["workloads"], data["factors"]
    assert data == {
        "source": "agents",
        "sinceSeconds": 86_400,
        "until": "2026-06-01T18:00:00Z",
        "partsJoules": {"pods": 6 * KWH, "idle": 3 * KWH, "unattributed": KWH},
        "unknownSeconds": 90.0,
        "nodes": {"n1": {"seenShare": 1.0}, "n2": {"seenShare": 0.4}, "n3": {"seenShare": 0.07}},
    }


async def test_money_is_counted_and_what_is_unknown_stays_unknown(fake_api, fake, since):
    data = {"pricePerKwh": "0.25", "currency": "EUR"}
    metadata = {"name": "joulie-energy-factors", "namespace": "joulie-system"}
    fake_api.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    point, _, upper = energy(4.0, "ml", "job/train")
    fake.body = answer(point, upper)

    result = await since()

    assert words(result.out)[1] == ["ml", "job/train", "cpu", "allocated", "4.000", "-", "8.000", "1.00"]
    text = flat(result.out)
    assert "All nodes: pods unknown, idle unknown, unattributed unknown." in text
    assert "On which nodes, and for how much of that time, is unknown." in text
    found = json.loads((await since("-o", "json")).out)
    assert found["workloads"][0]["money"] == {"lower": None, "point": 1.0, "upper": 2.0}
    assert (found["workloads"][0]["lowerJoules"], found["unknownSeconds"], found["partsJoules"]) == (None, None, None)


@pytest.mark.parametrize("at_s", [1e300, -1.0, 253_402_300_800.0])
async def test_a_time_that_is_none_is_not_known(fake, since, at_s):
    fake.body = answer({**SEEN[0], "value": [at_s, "100"]})

    assert "The last 24h, with the first" in flat((await since()).out)
    assert json.loads((await since("-o", "json")).out)["until"] is None


async def test_bounds_contain_the_point_however_each_was_extrapolated(fake, since):
    labels = {"namespace": "ml", "workload": "job/train", "device": "cpu", "kind": "allocated"}
    fake.body = answer(series("energy", 10, **labels), series("lower", 10.5, **labels), series("upper", 9.5, **labels))

    (row,) = json.loads((await since("-o", "json")).out)["workloads"]

    assert (row["lowerJoules"], row["joules"], row["upperJoules"]) == (10.0, 10.0, 10.0)


async def test_a_bound_without_a_series_is_unknown_and_a_workload_that_drew_nothing_has_zero(fake, since):
    labels = {"namespace": "ml", "workload": "job/train", "device": "cpu", "kind": "allocated"}
    fake.body = answer(series("energy", 0, **labels), series("lower", 0, **labels), series("seen", 98, node="n1"))

    result = await since()

    assert words(result.out)[1] == ["ml", "job/train", "cpu", "allocated", "0.000", "0.000", "-"]
    assert "1 node had series." in result.out
    assert (result.code, result.err) == (0, "")


async def test_the_shortest_time_has_an_instant_each_second(fake, cli):
    fake.body = answer(series("seen", 30, node="n1"))

    result = await cli("energy", "--since", "60s", "--prometheus", fake.url)

    assert "(group by (node) (joulie_node_energy_unknown_seconds_total))[60s:1s]" in fake.requests[0][2]["query"]
    assert "n1 50%" in result.out


async def test_a_time_without_pods_is_told_from_one_without_series(fake, since):
    fake.body = answer(*PARTS, *SEEN)
    assert "No workload has a series of that time." in (await since()).out

    fake.body = answer()
    result = await since()
    assert (result.code, result.out) == (3, "")
    assert f"Prometheus {fake.url} has no series joulie_workload_energy_joules_total of the last 24h" in result.err
    assert "agent.energyByPod.enabled" in result.err


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "many"])
async def test_a_value_that_is_no_energy_is_named_and_the_others_are_shown(fake, since, value):
    fake.body = answer(*ALL, *energy(1.0, "shop", "job/mail")[1:], series("energy", value, namespace="x", workload="y"))

    result = await since()

    assert words(result.out)[1][1] == "job/train"
    assert " x " not in result.out
    assert result.code == 3
    assert "values that are no energy, and that are in no sum: energy of x y: " in result.err


async def test_namespaces_of_scrape_targets_are_not_taken_for_those_of_workloads(fake, since):
    fake.body = answer(*ALL, series("replaced", 1))

    result = await since()

    assert (result.code, result.out) == (3, "")
    assert "the agents' series have the label exported_namespace" in result.err
    assert "honor_labels: true" in result.err


async def test_texts_of_labels_are_printed_without_control_characters(fake, since):
    poison = "\x1b]0;title\x07\u202ex"
    fake.body = answer(*energy(1.0, f"a{poison}", f"b{poison}", f"c{poison}", f"d{poison}"))

    table, data = (await since()).out, (await since("-o", "json")).out

    assert not [each for each in "\x1b\x07\u202e" if each in table + data]
    assert json.loads(data)["workloads"][0]["workload"] == f"b{poison}"
