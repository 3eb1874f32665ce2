"""Where `energy --since` finds Prometheus, what goes wrong there, and options that are refused."""

import pytest

from joulie_testing.api import Disconnect, Respond
from joulie_testing.cli import flat, words
from joulie_testing.prometheus import answer, series

PROXY = "/api/v1/namespaces/monitoring/services/http:prometheus-operated:9090/proxy/api/v1/query"
BEHIND = ("--prometheus", "monitoring/prometheus-operated:9090")
LABELS = {"namespace": "ml", "workload": "job/train", "device": "gpu", "kind": "measured"}
ALL = [series("energy", 1, **LABELS)]


@pytest.fixture(autouse=True)
def _with_a_workload(fake):
    fake.body = answer(*ALL)


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
