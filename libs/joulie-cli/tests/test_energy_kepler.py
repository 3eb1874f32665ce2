"""`energy --source kepler` against a stand-in for Prometheus."""

import json

from joulie_testing.cli import flat, words
from joulie_testing.prometheus import answer, increase_query, series

KWH = 3.6e6
KEPLER = [series("energy", 2 * KWH, pod_namespace="shop", pod_name="web-1"), series("seen", 90, node_name="n1")]


def kepler_seen(metric, label, name):
    count = f"count_over_time((group by ({label}) ({metric}))[86400s:864s])"
    return f'label_replace({count}, "joulie_figure", "{name}", "", "")'


EARLIER = [
    series("earlier", 1 * KWH, container_namespace="shop", pod_name="web-0"),
    series("earlier_seen", 80, instance="n1:9102"),
]


async def test_keplers_energy_is_by_pod_allocated_and_without_bounds(fake, since):
    fake.body = answer(*KEPLER)

    result = await since("--source", "kepler")

    ((_, _, query),) = fake.requests
    pods = increase_query("kepler_pod_cpu_joules_total", "pod_namespace, pod_name", 'zone=~"package.*"', "energy")
    by = "container_namespace, pod_name"
    assert query["query"].split(" or ") == [
        pods,
        kepler_seen("kepler_node_cpu_joules_total", "node_name", "seen"),
        increase_query("kepler_container_package_joules_total", by, 'mode!="idle"', "earlier"),
        kepler_seen("kepler_node_package_joules_total", "instance", "earlier_seen"),
    ]
    assert "The last 24h to 2026-06-01T18:00:00Z" in flat(result.out)
    assert "1 node had series, 1 of them for a part of the time only: n1 90%" in flat(result.out)
    assert words(result.out)[:2] == [
        ["NAMESPACE", "POD", "DEVICE", "KIND", "kWh", "FROM", "TO"],
        ["shop", "web-1", "cpu", "allocated", "2.000", "-", "-"],
    ]
    assert "It states no bounds" in flat(result.out)
    (row,) = json.loads((await since("--source", "kepler", "-o", "json")).out)["pods"]
    assert (row["pod"], row["rule"], row["lowerJoules"], row["upperJoules"]) == ("web-1", "kepler", None, None)


async def test_earlier_kepler_is_taken_where_there_is_no_later_one_and_never_added_to_it(fake, since):
    fake.body = answer(*EARLIER)
    alone = await since("--source", "kepler", "-n", "shop", "--by", "namespace")
    fake.body = answer(*KEPLER, *EARLIER)
    both = await since("--source", "kepler")

    (_, _, query), _ = fake.requests
    matchers = 'mode!="idle",container_namespace="shop"'
    figures = query["query"].split(" or ")
    later = 'zone=~"package.*",pod_namespace="shop"'
    assert figures[0] == increase_query("kepler_pod_cpu_joules_total", "pod_namespace", later, "energy")
    assert figures[2] == increase_query(
        "kepler_container_package_joules_total", "container_namespace", matchers, "earlier"
    )
    assert words(alone.out)[1] == ["shop", "web-0", "cpu", "allocated", "1.000", "-", "-"]
    assert "n1:9102 80%" in flat(alone.out)
    assert "they are in no sum" not in alone.out
    assert [row[4] for row in words(both.out)[1:2]] == ["2.000"]
    assert "Kepler before 0.10 has series of that time, too" in flat(both.out)


async def test_a_value_of_keplers_that_is_no_energy_is_named_too(fake, since):
    fake.body = answer(*KEPLER, series("energy", "NaN", pod_namespace="shop", pod_name="web-2"))

    result = await since("--source", "kepler")

    assert result.code == 3
    assert "energy of shop web-2: nan" in result.err
    assert words(result.out)[1][1] == "web-1"
