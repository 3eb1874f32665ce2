"""`energy --since` against a stand-in for Prometheus; tests/integration/test_energy_since.py has the real one."""

import json
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from joulie_cli import prometheus
from joulie_testing.api import Disconnect, Respond

KWH = 3.6e6
AT_S = 1780336800.5
PROXY = "/api/v1/namespaces/monitoring/services/http:prometheus-operated:9090/proxy/api/v1/query"
BEHIND = ("--prometheus", "monitoring/prometheus-operated:9090")


def series(figure, value, **labels):
    return {"metric": {"joulie_figure": figure, **labels}, "value": [AT_S, str(value)]}


def answer(*found, kind="vector"):
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": list(found)}}).encode()


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


@dataclass
class FakePrometheus:
    """Answers every request with the same, and keeps the requests."""

    body: bytes = answer(*ALL)
    status: int = 200
    headers: dict = field(default_factory=dict)
    requests: list = field(default_factory=list)
    url: str = ""

    async def answer(self, request):
        self.requests.append((request.method, request.path, dict(request.query)))
        return web.Response(body=self.body, status=self.status, headers=self.headers)


@pytest.fixture
async def fake():
    found = FakePrometheus()
    app = web.Application()
    app.router.add_route("*", "/{any:.*}", found.answer)
    async with TestServer(app) as server:
        found.url = str(server.make_url("/")).rstrip("/")
        yield found


@pytest.fixture
def since(cli, fake):
    """Runs the verb for a day on the fake."""

    async def run(*arguments):
        return await cli("energy", "--since", "24h", "--prometheus", fake.url, *arguments)

    return run


@pytest.fixture
def small_answers(monkeypatch):
    """Accepts 1,000 bytes."""
    monkeypatch.setattr(prometheus, "MAX_ANSWER_BYTES", 1_000)


def words(text):
    return [line.split() for line in text.splitlines()]


def flat(text):
    return " ".join(text.split())


def one_figure(metric, by, matchers, name):
    increase = f"sum by ({by}) (increase({metric}{{{matchers}}}[86400s]))"
    return f'label_replace({increase}, "joulie_figure", "{name}", "", "")'


async def test_one_query_asks_for_all_figures_of_the_time(fake, since):
    assert (await since()).code == 0

    ((method, path, query),) = fake.requests
    assert (method, path, set(query)) == ("GET", "/api/v1/query", {"query"})
    by = "namespace, workload, device, kind"
    assert query["query"].split(" or ") == [
        one_figure("joulie_workload_energy_joules_total", by, "", "energy"),
        one_figure("joulie_workload_energy_lower_joules_total", by, "", "lower"),
        one_figure("joulie_workload_energy_upper_joules_total", by, "", "upper"),
        one_figure("joulie_node_energy_joules_total", "part", "", "parts"),
        one_figure("joulie_node_energy_unknown_seconds_total", "", "", "unknown"),
        f'label_replace({SEEN_COUNT}, "joulie_figure", "seen", "", "")',
        f'label_replace({REPLACED}, "joulie_figure", "replaced", "", "")',
    ]


async def test_prometheus_adds_up_one_namespace_or_all_of_them_by_namespace(fake, since):
    await since("-n", "ml", "--by", "namespace")

    ((_, _, query),) = fake.requests
    by = "namespace, device, kind"
    expected = one_figure("joulie_workload_energy_joules_total", by, 'namespace="ml"', "energy")
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
    pods = one_figure("kepler_pod_cpu_joules_total", "pod_namespace, pod_name", 'zone=~"package.*"', "energy")
    by = "container_namespace, pod_name"
    assert query["query"].split(" or ") == [
        pods,
        kepler_seen("kepler_node_cpu_joules_total", "node_name", "seen"),
        one_figure("kepler_container_package_joules_total", by, 'mode!="idle"', "earlier"),
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
    assert figures[0] == one_figure("kepler_pod_cpu_joules_total", "pod_namespace", later, "energy")
    assert figures[2] == one_figure("kepler_container_package_joules_total", "container_namespace", matchers, "earlier")
    assert words(alone.out)[1] == ["shop", "web-0", "cpu", "allocated", "1.000", "-", "-"]
    assert "n1:9102 80%" in flat(alone.out)
    assert "they are in no sum" not in alone.out
    assert [row[4] for row in words(both.out)[1:2]] == ["2.000"]
    assert "Kepler before 0.10 has series of that time, too" in flat(both.out)


async def test_a_service_is_asked_through_the_proxy_of_the_api_server(fake_api, cli):
    fake_api.faults.add(Respond(200, body=answer(*ALL)), path="/proxy/", times=None)

    result = await cli("energy", "--since", "24h", *BEHIND)
    await cli("energy", "--since", "24h", "--prometheus", "monitoring/prometheus")

    named, only = [each for each in fake_api.requests if each.subresource == "proxy"]
    assert (named.verb, named.kind, named.path, set(named.query)) == ("get", "Service", PROXY, {"query"})
    assert named.query["query"].startswith("label_replace(sum by (namespace, workload")
    assert only.path == "/api/v1/namespaces/monitoring/services/http:prometheus:9090/proxy/api/v1/query"
    assert words(result.out)[1][1] == "job/train"


def status(code, message):
    return Respond(code, message=message)


def body(code, raw):
    return Respond(code, body=raw)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (status(403, "services is forbidden"), ["forbidden: services is forbidden", "grant this user get on services"]),
        (status(404, 'services "p" not found'), ["is not there: services", "NAMESPACE/SERVICE[:PORT]"]),
        (status(503, "no endpoints available"), ["the API server cannot reach Prometheus", "no endpoints available"]),
        (body(400, b'{"status":"error","error":"parse error"}'), ["answered 400: parse error"]),
        (body(503, b'{"status":"error","error":"query timed out"}'), ["answered 503: query timed out"]),
        (body(200, b"<html>"), ["has no usable answer: not a result of an instant query", "is it a Prometheus?"]),
        (body(200, answer(kind="matrix")), ["result type is matrix"]),
        (body(200, answer(series("watts", 1))), ["answers series that were not asked for"]),
        (body(200, b'{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}'), ["not asked for"]),
        (body(200, b" " * 1_001), ["answers with more than 1000 bytes", "--by namespace"]),
        (Disconnect(), ["no answer of Prometheus", "kubectl port-forward"]),
    ],
)
@pytest.mark.usefixtures("small_answers")
async def test_what_goes_wrong_behind_the_proxy_is_named_with_a_way_out(fake_api, cli, reply, expected):
    fake_api.faults.add(reply, path="/proxy/", times=None)

    result = await cli("energy", "--since", "24h", *BEHIND)

    assert (result.code, result.out) == (3, "")
    for each in expected:
        assert each in flat(result.err)
    assert "monitoring/prometheus-operated" in result.err or "forbidden" in result.err


@pytest.mark.parametrize(
    "failure",
    [
        (422, b'{"status":"error","error":"too many samples"}', "it answered 422: too many samples"),
        (404, b"404 page not found", "it is not there: 404 page not found"),
        (401, b"who are you?", "it answered 401: who are you?"),
        (500, b"<html>" + b"x" * 5_000, "it answered 500: <html>xxx"),
        (200, b"<html>", "has no usable answer"),
        (200, b" " * 1_001, "answers with more than 1000 bytes"),
    ],
)
@pytest.mark.usefixtures("small_answers")
async def test_what_goes_wrong_at_a_url_is_named(fake, since, failure):
    fake.status, fake.body, expected = failure

    result = await since()

    assert (result.code, result.out) == (3, "")
    assert expected in flat(result.err)
    assert fake.url in result.err
    assert len(result.err) < 600


async def test_an_answer_that_is_compressed_is_not_unpacked(fake, since):
    fake.headers = {"Content-Encoding": "gzip"}
    assert "encoded as 'gzip'" in (await since()).err


async def test_a_url_that_does_not_answer_is_named_without_its_password(cli):
    result = await cli("energy", "--since", "24h", "--prometheus", "http://eve:secret@127.0.0.1:1/prometheus")

    assert result.code == 3
    assert "--prometheus http://***@127.0.0.1:1/prometheus: cannot reach it" in result.err
    assert "secret" not in result.err


async def test_a_url_may_have_a_path_and_a_password(fake, cli):
    url = fake.url.replace("http://", "http://eve:secret@")
    assert (await cli("energy", "--since", "24h", "--prometheus", f"{url}/prometheus/")).code == 0
    assert fake.requests[0][:2] == ("GET", "/prometheus/api/v1/query")


@pytest.mark.parametrize(
    ("arguments", "problem", "way_out"),
    [
        (("--since", "24h"), "--since needs a Prometheus", "--prometheus names it"),
        (("--prometheus", "http://p"), "--prometheus and --source are of a time", "--since TIME"),
        (("--source", "kepler"), "--prometheus and --source are of a time", "--since TIME"),
        (("--by", "pod"), "--source agents has no series by pod", "--by workload or --by namespace"),
        (
            ("--since", "1d", *BEHIND, "--source", "kepler", "--by", "workload"),
            "--source kepler has no series by workload",
            "--by pod or --by namespace",
        ),
        (
            ("--since", "1d", *BEHIND, "-n", 'x"} or up{a="'),
            "no namespace can have that name",
            "kubectl get namespaces",
        ),
        (("--since", "1d", *BEHIND, "-n", ""), "no namespace can have that name", "kubectl get namespaces"),
        (("--since", "1d", *BEHIND, "-n", "a.b"), "no namespace can have that name", "kubectl get namespaces"),
    ],
)
async def test_options_that_do_not_go_together_are_refused_before_anything_is_asked(
    fake_api, cli, arguments, problem, way_out
):
    result = await cli("energy", *arguments)

    assert (result.code, result.out) == (2, "")
    assert problem in result.err
    assert way_out in result.err
    assert len(fake_api.requests) == 0


@pytest.mark.parametrize("option", ["--by", "--source"])
async def test_a_choice_that_there_is_not_is_refused_with_those_that_there_are(cli, capsys, option):
    with pytest.raises(SystemExit) as ended:
        await cli("energy", option, "x")
    assert ended.value.code == 2
    choices = {"--by": "'workload', 'pod', 'namespace'", "--source": "'agents', 'kepler'"}[option]
    assert f"invalid choice: 'x' (choose from {choices})" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "59s", "1826d", "1w", "-1h", "1d1h", "d", "9999999d", "month", "0"])
async def test_a_time_of_another_form_is_refused(cli, capsys, text):
    with pytest.raises(SystemExit) as ended:
        await cli("energy", f"--since={text}", *BEHIND)
    assert ended.value.code == 2
    assert "is not a time as 90m, 24h or 30d, from 1m to 1825d" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "seconds"), [("1m", 60), ("90m", 5_400), ("24h", 86_400), ("30d", 2_592_000)])
async def test_a_time_is_a_duration_or_a_number_of_days(fake, cli, text, seconds):
    await cli("energy", "--since", text, "--prometheus", fake.url)
    assert f"_joules_total{{}}[{seconds}s]" in fake.requests[0][2]["query"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "prometheus",
        "a/b/c",
        "A/b",
        "a/b:",
        "a/b:9090:1",
        "a/../b",
        "a/b?x",
        "ftp://host",
        "http://",
        "http://host?query=up",
        "http://host#x",
        "http://ho st",
        f"{'n' * 64}/b",
    ],
)
async def test_what_names_no_prometheus_is_refused(cli, capsys, text):
    with pytest.raises(SystemExit) as ended:
        await cli("energy", "--since=1d", f"--prometheus={text}")
    assert ended.value.code == 2
    assert "NAMESPACE/SERVICE[:PORT]" in capsys.readouterr().err


async def test_a_value_of_keplers_that_is_no_energy_is_named_too(fake, since):
    fake.body = answer(*KEPLER, series("energy", "NaN", pod_namespace="shop", pod_name="web-2"))

    result = await since("--source", "kepler")

    assert result.code == 3
    assert "energy of shop web-2: nan" in result.err
    assert words(result.out)[1][1] == "web-1"
