"""The HTTP backend, its transport and its Secrets, over real sockets."""

import asyncio
import base64
import gzip
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from joulie_actuator.reasons import Reason
from joulie_agent.backends import transport as transport_module
from joulie_agent.backends.base import CpuHeld, Unavailable
from joulie_agent.backends.headers import TTL_S, BadSecret, SecretHeaders
from joulie_agent.backends.http import HttpActuator, HttpSource
from joulie_agent.backends.prometheus import PrometheusSource
from joulie_agent.backends.transport import MAX_REPLY_BYTES, HttpTarget, HttpTransport
from joulie_api.resources import SECRETS
from joulie_core.control.caps_resolve import WattRange
from joulie_core.kinds.telemetry_profile import Held
from joulie_core.names import NodeName


class NoSecrets:
    async def headers(self, secret):
        return BadSecret(f"no {secret}")


@pytest.fixture
async def transport():
    async with HttpTransport(NoSecrets(), user_agent="test/1") as made:
        yield made


@asynccontextmanager
async def serving(handler):
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def answering(body=b"{}", status=200):
    async def handler(_request):
        return web.Response(body=body, status=status)

    return handler


def actuator(transport, url, **kwargs):
    return HttpActuator(transport, HttpTarget(url + "/control/n1", 1.0, **kwargs), NodeName("n1"), clock=lambda: "now")


async def test_a_control_request_has_the_contracts_form(transport, backend):
    backend.add("n1")
    outcome = await actuator(transport, backend.url).set_cpu_cap(240)
    assert backend.bodies == [{"node": "n1", "action": "rapl.set_power_cap_watts", "ts": "now", "capWatts": 240}]
    assert (outcome.result, outcome.enforced_watts, outcome.backend) == ("applied", 240, "http-rapl")


async def test_all_gpus_get_the_lowest_of_different_caps(transport, backend):
    node = backend.add("n1")
    await actuator(transport, backend.url).set_gpu_caps({"a": 300, "b": 250})
    assert node.gpu_cap_watts == 250


BOTH = CpuHeld(cap=Held.YES, throttle=Held.YES)


async def test_a_throttle_releases_the_cap_before_it_once_it_is_in_force(transport, backend):
    node = backend.add("n1", cap_watts=100)
    acting = actuator(transport, backend.url)
    outcome = await acting.set_dvfs_throttle(40, release_cap=Held.YES, limits=WattRange(250, 100))
    assert (outcome.applied, outcome.unreleased) == (True, None)
    assert (node.cap_watts, node.throttle_pct) == (250, 40)
    assert [body["action"] for body in backend.bodies] == ["dvfs.set_throttle_pct", "rapl.set_power_cap_watts"]


async def test_a_throttle_that_is_refused_releases_nothing(transport, backend):
    node = backend.add("n1", cap_watts=100, script={"dvfs.set_throttle_pct": {"result": "blocked"}})
    limits = WattRange(250, 100)
    await actuator(transport, backend.url).set_dvfs_throttle(40, release_cap=Held.YES, limits=limits)
    assert node.cap_watts == 100


@pytest.mark.parametrize(("held", "left"), [(Held.YES, True), (Held.PERHAPS, False)])
async def test_a_release_that_is_declined_counts_only_where_nothing_was_known_to_be_in_force(
    held, left, transport, backend
):
    backend.add("n1", throttle_pct=40, script={"dvfs.set_throttle_pct": {"result": "blocked"}})
    outcome = await actuator(transport, backend.url).set_cpu_cap(100, release_throttle=held)
    assert (outcome.unreleased is not None) == left


async def test_restoring_lifts_throttle_and_cap(transport, backend):
    node = backend.add("n1", cap_watts=100, throttle_pct=50, gpu_cap_watts=200)
    acting = actuator(transport, backend.url)
    assert (await acting.restore_cpu(WattRange(250, 100), BOTH)).reason is Reason.RESTORED
    assert (await acting.restore_gpu(WattRange(400, 100))).reason is Reason.RESTORED
    assert (node.cap_watts, node.throttle_pct, node.gpu_cap_watts) == (250, 0, 400)


async def test_restoring_without_a_range_lifts_the_throttle_and_reports_the_cap(transport, backend):
    node = backend.add("n1", cap_watts=100, throttle_pct=50)
    outcome = await actuator(transport, backend.url).restore_cpu(WattRange(), BOTH)
    assert (outcome.result, outcome.reason) == ("blocked", Reason.NO_CAP_RANGE)
    assert (node.cap_watts, node.throttle_pct) == (100, 0)


async def test_a_node_that_the_backend_has_forgotten_counts_as_restored(transport, backend):
    assert (await actuator(transport, backend.url).restore_cpu(WattRange(250), BOTH)).applied


async def test_restoring_fails_when_either_half_fails(transport, backend):
    backend.add("n1", script={"dvfs.set_throttle_pct": 500})
    assert (await actuator(transport, backend.url).restore_cpu(WattRange(250), BOTH)).reason is Reason.HTTP_STATUS


@pytest.mark.parametrize(
    ("status", "reason"), [(404, Reason.NOT_FOUND), (500, Reason.HTTP_STATUS), (302, Reason.HTTP_STATUS)]
)
async def test_a_status_that_is_not_2xx_is_an_error_with_the_bodys_beginning(transport, status, reason):
    async with serving(answering(b"sorry", status)) as url:
        outcome = await actuator(transport, url).set_cpu_cap(240)
    assert (outcome.result, outcome.reason, outcome.message) == ("error", reason, f"HTTP {status}: sorry")


async def test_a_backend_that_is_not_there_is_unreachable(transport):
    async with serving(answering()) as url:
        pass
    assert (await HttpSource(transport, HttpTarget(url, 1.0)).read()).reason is Reason.UNREACHABLE


async def test_a_connection_that_breaks_is_unreachable(transport):
    async def handler(request):
        request.transport.abort()
        return web.Response()

    async with serving(handler) as url:
        assert (await HttpSource(transport, HttpTarget(url, 1.0)).read()).reason is Reason.UNREACHABLE


async def test_a_body_that_never_ends_runs_into_the_time_limit(transport):
    async def handler(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"{")
        await asyncio.Event().wait()

    async with serving(handler) as url:
        assert (await HttpSource(transport, HttpTarget(url, 0.2)).read()).reason is Reason.TIMEOUT


async def test_a_body_that_is_too_large_is_refused(transport):
    async with serving(answering(b" " * (MAX_REPLY_BYTES + 1))) as url:
        assert (await HttpSource(transport, HttpTarget(url, 5.0)).read()).reason is Reason.MALFORMED_REPLY


@pytest.mark.parametrize(
    "url", ["", "sim:18080", "ftp://sim", "http://", "http://sim:port", "http://[::1", "file:///etc"]
)
async def test_what_is_no_address_is_a_bad_endpoint(transport, url):
    assert (await HttpSource(transport, HttpTarget(url, 1.0)).read()).reason is Reason.BAD_ENDPOINT


async def test_waiting_for_a_slot_does_not_count_as_time_of_the_call(transport, monkeypatch):
    monkeypatch.setattr(transport_module, "MAX_IN_FLIGHT", 1)

    async def handler(_request):
        await asyncio.sleep(0.05)
        return web.json_response({"packagePowerWatts": 1})

    async with serving(handler) as url:
        source = HttpSource(transport, HttpTarget(url, 0.75))
        answers = await asyncio.gather(*(source.read() for _ in range(20)))
    assert not [answer for answer in answers if isinstance(answer, Unavailable)]


async def test_a_full_backend_takes_no_slot_of_another(transport, monkeypatch):
    monkeypatch.setattr(transport_module, "MAX_IN_FLIGHT", 1)
    reached, never = asyncio.Event(), asyncio.Event()

    async def hang(_request):
        reached.set()
        await never.wait()
        return web.Response()

    async with serving(hang) as hung, serving(answering(b'{"packagePowerWatts": 1}')) as good:
        waiting = asyncio.create_task(HttpSource(transport, HttpTarget(hung, 30)).read())
        await reached.wait()
        assert (await HttpSource(transport, HttpTarget(good, 5)).read()).cpu.power_watts == 1
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


@pytest.mark.parametrize("gpu", [False, True])
async def test_a_prometheus_query_answers_the_sum_of_its_samples(transport, gpu):
    asked = []

    async def handler(request):
        asked.append((request.path, request.query["query"]))
        samples = [{"metric": {}, "value": [1.7e9, value]} for value in ("100.5", "50")]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": samples}})

    async with serving(handler) as url:
        source = PrometheusSource(transport, HttpTarget(url + "/api/v1/query", 1.0), 'power{node="n1"}', gpu=gpu)
        reading = await source.read()
    assert asked == [("/api/v1/query", 'power{node="n1"}')]
    assert (reading.gpu if gpu else reading.cpu).power_watts == 150.5
    assert (reading.cpu if gpu else reading.gpu).power_watts is None


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ("[]", Reason.NO_READING),
        ('[{"value": [1, "NaN"]}]', Reason.NO_READING),
        ('[{"value": [1, "-5"]}]', Reason.NO_READING),
        ('[{"value": [1, "0"]}]', Reason.NO_READING),
        ('[{"value": [1, "120"]}, {"value": [1, "0"]}]', Reason.NO_READING),
        ('[{"value": [1, "300000"]}]', Reason.NO_READING),
        ('[{"value": [1, "many"]}]', Reason.NO_READING),
        ("{}", Reason.MALFORMED_REPLY),
    ],
)
async def test_a_query_without_a_usable_value_is_no_reading(transport, result, reason):
    answer = f'{{"status": "success", "data": {{"resultType": "vector", "result": {result}}}}}'
    async with serving(answering(answer.encode())) as url:
        assert (await PrometheusSource(transport, HttpTarget(url, 1.0), "up", gpu=False).read()).reason is reason


def secret(**entries):
    data = {key: base64.b64encode(value).decode() for key, value in entries.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "here"}, "data": data}


async def test_a_secret_is_read_once_for_any_number_of_requests(fake_api, fake_client):
    fake_api.put(secret(Authorization=b"Bearer x\n"))
    headers = SecretHeaders(fake_client, "here")
    answers = await asyncio.gather(*(headers.headers("s") for _ in range(20)))
    assert answers == [{"Authorization": "Bearer x"}] * 20
    assert len(fake_api.requests.find(kind="Secret")) == 1


@pytest.mark.looptime
async def test_a_changed_secret_is_noticed_after_a_while():
    class Client:
        token = b"old"

        async def get(self, resource, name, namespace):
            assert (resource, name, namespace) == (SECRETS, "s", "here")
            return b'{"data": {"T": "' + base64.b64encode(self.token) + b'"}}'

    client = Client()
    headers = SecretHeaders(client, "here")
    assert await headers.headers("s") == {"T": "old"}
    client.token = b"new"
    await asyncio.sleep(TTL_S - 1)
    assert await headers.headers("s") == {"T": "old"}
    await asyncio.sleep(1)
    assert await headers.headers("s") == {"T": "new"}


@pytest.mark.parametrize(
    ("entries", "word"),
    [({}, "empty"), ({"T": b"\xff\xfe"}, "text"), ({"T": b"a\r\nEvil: yes"}, "line break")],
)
async def test_a_secret_that_holds_no_headers_is_refused_without_showing_it(fake_api, fake_client, entries, word):
    fake_api.put(secret(**entries))
    answer = await SecretHeaders(fake_client, "here").headers("s")
    assert isinstance(answer, BadSecret)
    assert word in answer.message
    assert "Evil" not in answer.message


async def test_an_answer_without_end_is_cut_off_at_the_limit(transport):
    sent = 0

    async def endless(request):
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while sent < 100 * MAX_REPLY_BYTES:
            await response.write(b" " * 65_536)
            sent += 65_536
        return response

    async with serving(endless) as url:
        answer = await transport.get(HttpTarget(url, 5.0))
    assert (answer.reason, "more than" in answer.message) == (Reason.MALFORMED_REPLY, True)
    assert sent < 50 * MAX_REPLY_BYTES, "what the sockets buffer, and no more"


async def test_an_encoded_answer_is_refused_and_none_is_requested(transport):
    asked = []

    async def encoded(request):
        asked.append(request.headers.get("Accept-Encoding"))
        return web.Response(body=gzip.compress(b" " * 10_000_000), headers={"Content-Encoding": "gzip"})

    async with serving(encoded) as url:
        answer = await transport.get(HttpTarget(url, 5.0))
    assert (answer.reason, asked) == (Reason.MALFORMED_REPLY, ["identity"])


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"result": ' + b"[" * 100_000, b'{"result": "applied", "state": ' + b"[" * 100_000]
)
async def test_a_control_reply_that_is_nested_too_deeply_is_malformed(body, transport):
    async with serving(answering(body)) as url:
        outcome = await actuator(transport, url).set_cpu_cap(240)
    assert outcome.reason is Reason.MALFORMED_REPLY


async def test_facts_that_are_nested_too_deeply_leave_the_reading(transport):
    deep = b"[" * 900 + b"]" * 900
    async with serving(answering(b'{"packagePowerWatts": 90, "memory": ' + deep + b"}")) as url:
        reading = await HttpSource(transport, HttpTarget(url, 5.0)).read()
    assert reading.cpu.power_watts == 90
    assert reading.facts.memory is None


async def test_the_message_of_a_reply_is_made_printable(transport):
    body = '{"result": "blocked", "message": "no\x9b31m\x7f"}'.encode()
    async with serving(answering(body)) as url:
        outcome = await actuator(transport, url).set_cpu_cap(240)
    assert outcome.message.isprintable()


async def test_a_password_in_the_address_is_in_no_failure(transport):
    answer = await transport.get(HttpTarget("ftp://user:secret@host/", 1.0))
    assert answer.reason is Reason.BAD_ENDPOINT
    assert "secret" not in answer.message
