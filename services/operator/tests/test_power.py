"""Power readings: agents, HTTP, Prometheus, the model, and who is believed."""

import asyncio
import gzip
import json
import math

import aiohttp
import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from joulie_api.answers import session_options
from joulie_api.prometheus import PrometheusSample, QueryError
from joulie_api.wire import decode_node
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import view_from_node
from joulie_core.kinds.node_twin import MeasurementQuality, MeasurementSource
from joulie_core.kinds.telemetry_profile import TelemetryProfile
from joulie_core.names import NodeName
from joulie_core.plausible import Plausibility, judge
from joulie_core.timestamps import rfc3339
from joulie_core.twin import Measurement, PowerBudget
from joulie_operator import prometheus as operator_prometheus
from joulie_operator.cluster import PodLoad
from joulie_operator.power import AgentReadings, PowerInputs, PowerSample, PowerTracker, model
from joulie_operator.power_http import HttpReadings
from joulie_operator.power_prometheus import PrometheusReadings, node_of
from joulie_operator.prometheus import MAX_ANSWER_BYTES, PART, Prometheus
from joulie_testing.api import make_node, make_telemetry_profile

N1, N2 = NodeName("n1"), NodeName("n2")
INVENTORY = Inventory.load()
CPU_HARDWARE = {"cpu_model": "AMD EPYC 7763", "cpu_sockets": 2, "cpu": 256}
CPU_VIEW = view_from_node(decode_node(msgspec.json.encode(make_node("n1", **CPU_HARDWARE))), INVENTORY)
GPU_VIEW = view_from_node(
    decode_node(msgspec.json.encode(make_node("n1", **CPU_HARDWARE, gpus=8, gpu_model="NVIDIA H100 80GB HBM3"))),
    INVENTORY,
)
WALL = 1_800_000_000.0


class Meter:
    """A source of readings that a test sets."""

    def __init__(self, **readings):
        self.readings = readings

    def reading(self, name):
        return self.readings.get(name)


def measure(sources, *, view=CPU_VIEW, now=0.0, load=PodLoad(), tdp=560.0, max_watts=None):  # noqa: B008 - never changed
    tracker = PowerTracker(sources, max_age_s=180)
    return tracker.measure(N1, PowerInputs(view, PowerBudget(cpu_tdp_watts=tdp), load, max_watts), now)[0]


def test_the_first_source_that_answers_is_believed():
    http, agent = PowerSample(310, 0, MeasurementSource.HTTP), PowerSample(290, 0, MeasurementSource.AGENT)
    assert measure([Meter(n1=http), Meter(n1=agent)]).watts == 310
    assert measure([Meter(), Meter(n1=agent)]) == Measurement(MeasurementSource.AGENT, MeasurementQuality.MEASURED, 290)


@pytest.mark.parametrize("nothing", [float("nan"), -1.0, 0.0])
def test_what_is_not_above_zero_is_no_answer(nothing):
    measured = measure([Meter(n1=PowerSample(nothing, 0, MeasurementSource.HTTP))])
    assert measured == measure([])


def test_a_reading_above_an_inferred_maximum_is_believed():
    assert measure([Meter(n1=PowerSample(10_000.0, 0, MeasurementSource.HTTP))]).watts == 10_000


@pytest.mark.parametrize("too_high", [560 * 3 + 1, float("inf")])
def test_a_reading_above_what_the_hardware_can_draw_counts_as_the_limit_and_not_as_measured(too_high):
    cooler = Meter(n1=PowerSample(200, 0, MeasurementSource.AGENT))
    measured = measure([Meter(n1=PowerSample(too_high, 0, MeasurementSource.HTTP)), cooler], max_watts=560)
    assert measured == Measurement(MeasurementSource.UTILIZATION, MeasurementQuality.MODELLED, 1680)


#: Readings of one meter, one after the other: good ones up to three times 560 W, missing, nothing, too high.
READINGS = st.lists(
    st.floats(1, 1680) | st.sampled_from([None, math.nan, -math.inf, -5.0, 0.0, 1681.0, math.inf]), max_size=12
)


def counted(readings, load=PodLoad()):  # noqa: B008 - never changed
    """The watts that a node counts with after each reading, ten minutes apart."""
    meter = Meter()
    tracker = PowerTracker([meter], max_age_s=180)
    node = PowerInputs(CPU_VIEW, PowerBudget(cpu_tdp_watts=560), load, max_watts=560)
    watts = []
    for at, reading in enumerate(readings):
        now = at * 600.0
        meter.readings = {} if reading is None else {"n1": PowerSample(reading, now, MeasurementSource.HTTP)}
        watts.append(tracker.measure(N1, node, now)[0].watts)
    return watts


def is_good(reading):
    return reading is not None and 0 < reading <= 1680


@given(READINGS)
def test_only_a_plausible_reading_lowers_what_a_node_counts_with(readings):
    watts = counted(readings)
    for reading, before, now in zip(readings[1:], watts, watts[1:], strict=False):
        assert now == reading if is_good(reading) else now >= before


@given(READINGS, st.data())
def test_an_implausible_reading_in_place_of_a_good_one_never_raises_head_room(readings, data):
    good = [at for at, reading in enumerate(readings) if is_good(reading)]
    if not good:
        return
    at = data.draw(st.sampled_from(good))
    bad = data.draw(st.sampled_from([1681.0, math.inf, math.nan, -5.0, 0.0, None]))
    watts, spoilt = counted(readings), counted([*readings[:at], bad, *readings[at + 1 :]])
    # A meter without readings may hide a rise; what was known before it still holds.
    before = watts[at - 1] if at else counted([None])[0]
    known = math.inf if bad in (1681.0, math.inf) else before
    for then, now in zip(watts[at:], spoilt[at:], strict=True):
        assert now >= min(then, known)


def test_pods_that_came_after_the_last_reading_are_added_to_it():
    meter = Meter(n1=PowerSample(500, 0, MeasurementSource.AGENT))
    tracker = PowerTracker([meter], max_age_s=180)
    budget = PowerBudget(cpu_tdp_watts=560)
    empty, busy = (PowerInputs(CPU_VIEW, budget, PodLoad(pods=1, cpu_cores=cores)) for cores in (0, 256))
    assert tracker.measure(N1, empty, 0)[0].watts == 500
    held, added, ended = (tracker.measure(N1, node, 200)[0].watts for node in (empty, busy, empty))
    assert held == ended == 500
    assert added == pytest.approx(500 + measure([], load=busy.load).watts - measure([]).watts)


def test_an_old_reading_is_no_answer():
    meter = Meter(n1=PowerSample(300, 0, MeasurementSource.AGENT))
    assert measure([meter], now=180).quality is MeasurementQuality.MEASURED
    assert measure([meter], now=181).quality is MeasurementQuality.MODELLED


def test_the_cpus_of_a_gpu_node_alone_are_no_answer():
    partial = Meter(n1=PowerSample(300, 0, MeasurementSource.AGENT, with_gpus=False))
    assert measure([partial], view=GPU_VIEW).quality is MeasurementQuality.MODELLED
    assert measure([partial], view=CPU_VIEW).quality is MeasurementQuality.MEASURED


def test_the_model_follows_what_pods_request():
    idle, busy = measure([]), measure([], load=PodLoad(pods=1, cpu_cores=64))
    assert idle.source is MeasurementSource.UTILIZATION
    assert 0 < idle.watts < busy.watts


def test_a_gpu_is_busy_in_the_model_when_all_of_its_shares_are_requested():
    budget = PowerBudget(cpu_tdp_watts=560, gpu_tdp_watts=5600)
    whole, shares, half = (
        model(PowerInputs(GPU_VIEW, budget, PodLoad(pods=1, gpus=gpus), gpu_units=units))
        for gpus, units in ((8, 1), (32, 4), (16, 4))
    )
    assert half < shares == whole


def test_the_model_draws_its_busy_power_only_when_all_threads_are_requested():
    half, all_threads, more = (measure([], load=PodLoad(pods=1, cpu_cores=cores)).watts for cores in (128, 256, 512))
    assert half < all_threads == more


def test_a_node_of_unknown_hardware_without_readings_is_unknown_and_not_zero():
    assert measure([], view=None) == Measurement(MeasurementSource.STATIC, MeasurementQuality.UNKNOWN, None)


def profile(cpu, gpu, at):
    power = {"cpuWatts": cpu, "gpuWatts": gpu, "updatedAt": rfc3339(at)}
    reported = {key: value for key, value in power.items() if value is not None}
    return TelemetryProfile.model_validate(make_telemetry_profile("n1", power=reported))


def agents():
    clock = iter(range(1000))
    return AgentReadings(max_age_s=180, clock=lambda: float(next(clock)), wall=lambda: WALL)


def test_an_agents_reading_is_the_sum_of_its_subsystems_dated_by_its_arrival():
    readings = agents()
    readings.on_profile("n1", profile(200, 1000, WALL - 5))
    assert readings.reading(N1) == PowerSample(1200, 0.0, MeasurementSource.AGENT)
    readings.on_profile("n1", profile(210, None, WALL))
    assert readings.reading(N1) == PowerSample(210, 1.0, MeasurementSource.AGENT, with_gpus=False)


@pytest.mark.parametrize(("cpu", "gpu", "left"), [(0, 1000, None), (200, 0, (200, False))])
def test_a_subsystem_of_0_watts_was_not_measured(cpu, gpu, left):
    readings = agents()
    readings.on_profile("n1", profile(cpu, gpu, WALL))
    reading = readings.reading(N1)
    assert (reading and (reading.watts, reading.with_gpus)) == left


def test_an_agent_whose_clock_is_slow_counts_from_its_second_reading_on_and_is_logged_by_name():
    readings = agents()
    with capture_logs() as logs:
        readings.on_profile("n1", profile(200, None, WALL - 3600))
        assert readings.reading(N1) is None, "it may be what an agent left that is gone"
        readings.on_profile("n1", profile(200, None, WALL - 3600))
        assert readings.reading(N1) is None
        for seconds in (20, 40):
            readings.on_profile("n1", profile(210, None, WALL - 3600 + seconds))
            assert readings.reading(N1).watts == 210
        readings.on_profile("n1", profile(220, None, WALL))
    assert readings.reading(N1).watts == 220
    assert [(log["event"], log["node"], log.get("problem")) for log in logs] == [
        ("clock of the agent is wrong", "n1", "a new reading is dated 3580 s ago"),
        ("clock of the agent is right", "n1", None),
    ]


def test_an_agent_whose_clock_is_fast_counts_at_once():
    readings = agents()
    readings.on_profile("n1", profile(200, None, WALL + 3600))
    assert readings.reading(N1).watts == 200


def test_the_same_reading_seen_again_is_not_newer():
    readings = agents()
    readings.on_profile("n1", profile(200, None, WALL))
    readings.on_profile("n1", profile(200, None, WALL))
    assert readings.reading(N1).at == 0.0


def test_a_reading_of_an_agent_long_gone_is_not_taken():
    readings = agents()
    readings.on_profile("n1", profile(200, None, WALL - 181))
    assert readings.reading(N1) is None


def test_a_report_without_cpu_power_or_a_deleted_report_ends_the_reading():
    readings = agents()
    for gone in (profile(None, 500, WALL), None):
        readings.on_profile("n1", profile(200, None, WALL))
        readings.on_profile("n1", gone)
        assert readings.reading(N1) is None


@pytest.fixture
async def serve():
    """Serve handlers by path on loopback; returns the base URL."""
    runners = []

    async def start(**handlers):
        app = web.Application()
        for path, handler in handlers.items():
            app.router.add_route("*", "/" + path.replace("__", "/"), handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        runners.append(runner)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    yield start
    for runner in runners:
        await runner.cleanup()


@pytest.fixture
async def session():
    async with aiohttp.ClientSession(**session_options()) as found:
        yield found


@pytest.mark.parametrize(
    ("answer", "watts", "with_gpus"),
    [
        ({"packagePowerWatts": 300}, 300, False),
        ({"cpu": {"packagePowerWatts": 300, "more": 1}, "gpu": {"powerWatts": 900}, "more": {}}, 1200, True),
        ({"cpu": {"packagePowerWatts": 300}, "packagePowerWatts": 1}, 300, False),
        ({}, None, None),
        ({"cpu": {"packagePowerWatts": "300"}}, None, None),
        ({"packagePowerWatts": -1}, None, None),
        ({"packagePowerWatts": 0}, None, None),
        ({"cpu": {"packagePowerWatts": 300}, "gpu": {"powerWatts": 0}}, 300, False),
        ([], None, None),
        ({"packagePowerWatts": 300, "gpu": {"devices": [{"powerWatts": 400}, {"powerWatts": 500}]}}, 1200, True),
        ({"packagePowerWatts": 300, "gpu": {"devices": [{"powerWatts": 400}, {}]}}, 300, False),
        ({"packagePowerWatts": 300, "gpu": {"powerWatts": -900}}, None, None),
    ],
)
async def test_an_http_endpoint_is_polled_for_each_node(serve, session, answer, watts, with_gpus):
    async def telemetry(request):
        assert request.path == "/telemetry/n1"
        return web.json_response(answer)

    url = await serve(**{"telemetry__{node}": telemetry})
    readings = HttpReadings(session, url + "/telemetry/{node}", lambda: [N1], interval_s=1)
    await readings.poll()
    reading = readings.reading(N1)
    assert (reading and reading.watts, reading and reading.with_gpus) == (watts, with_gpus)


async def test_a_silent_endpoint_keeps_the_last_reading_and_a_departed_node_does_not(serve, session):
    status = 200

    async def telemetry(_request):
        return web.json_response({"packagePowerWatts": 300}, status=status)

    nodes = [N1, N2]
    url = await serve(**{"telemetry__{node}": telemetry})
    readings = HttpReadings(session, url + "/telemetry/{node}", lambda: nodes, interval_s=1)
    await readings.poll()
    first = readings.reading(N1)
    status = 503
    nodes.remove(N2)
    await readings.poll()
    assert readings.reading(N1) is first
    assert readings.reading(N2) is None


#: The time of samples, and that of the operator.
AT_S, WALL_S = 1.5, 200.0


def vector(*series):
    result = [{"metric": metric, "value": [AT_S, value]} for metric, value in series]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


def prometheus_answering(serve, session, answer, status=200):
    async def query(request):
        queries.append((await request.post())["query"])
        return web.Response(text=json.dumps(answer), status=status)

    queries = []

    async def start():
        return Prometheus(session, await serve(api__v1__query=query), wall=lambda: WALL_S)

    return start(), queries


async def test_a_query_answers_every_series(serve, session):
    start, queries = prometheus_answering(serve, session, vector(({"node": "n1"}, "42.5"), ({"node": "n2"}, "+Inf")))
    answer = await (await start).query("up")
    assert answer == [PrometheusSample({"node": "n1"}, 42.5, AT_S), PrometheusSample({"node": "n2"}, math.inf, AT_S)]
    assert queries == ["up"]


@pytest.mark.parametrize(
    ("answer", "status", "why"),
    [
        ({"status": "error", "error": "parse error"}, 400, "parse error"),
        ({"status": "success", "data": {"resultType": "matrix", "result": []}}, 200, "matrix"),
        ("gone", 503, "503"),
        ("gone", 200, "not a result of an instant query"),
        ({"status": "success", "data": {"resultType": "scalar", "result": [1.5, "many"]}}, 200, "could not convert"),
    ],
)
async def test_a_query_without_a_usable_answer_raises_the_reason(serve, session, answer, status, why):
    start, _ = prometheus_answering(serve, session, answer, status)
    prometheus = await start
    with pytest.raises(QueryError, match=why):
        await prometheus.query("up")


@pytest.mark.parametrize("age_s", [301, 3600, -301])
async def test_a_sample_of_another_time_has_no_value(serve, session, age_s):
    series = [{"metric": {"node": name}, "value": [WALL_S - age, "300"]} for name, age in (("n1", age_s), ("n2", 299))]
    start, _ = prometheus_answering(
        serve, session, {"status": "success", "data": {"resultType": "vector", "result": series}}
    )
    readings = PrometheusReadings(await start, "w", lambda: {N1, N2}, source=MeasurementSource.KEPLER, interval_s=1)
    await readings.poll()
    assert readings.reading(N1) is None
    assert readings.reading(N2).watts == 300


async def test_other_tasks_run_while_a_long_answer_is_decoded(serve, session):
    start, _ = prometheus_answering(serve, session, vector(*(({"node": f"n{n}"}, "1") for n in range(3 * PART))))
    prometheus = await start
    turns = 0

    async def count():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    decode, seen = operator_prometheus.decode_series, []

    def decode_and_note(raw):
        seen.append(turns)
        return decode(raw)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operator_prometheus, "decode_series", decode_and_note)
        assert len(await prometheus.query("up")) == 3 * PART
    counting.cancel()
    assert seen[0] < seen[PART] < seen[2 * PART]


@pytest.mark.parametrize("encoding", ["", "gzip"])
async def test_an_answer_that_is_too_long_or_encoded_is_refused(serve, session, encoding):
    async def query(_request):
        body = gzip.compress(b"0" * MAX_ANSWER_BYTES) if encoding else b" " * (MAX_ANSWER_BYTES + 1)
        return web.Response(body=body, headers={"Content-Encoding": encoding} if encoding else {})

    prometheus = Prometheus(session, await serve(api__v1__query=query))
    with pytest.raises(QueryError, match="encoded as 'gzip'" if encoding else "more than 16777216 bytes"):
        await prometheus.query("up")


async def test_a_redirect_is_not_followed(serve, session):
    async def query(_request):
        raise web.HTTPFound("http://127.0.0.1:1/")

    prometheus = Prometheus(session, await serve(api__v1__query=query))
    with pytest.raises(QueryError, match="answers 302"):
        await prometheus.query("up")


async def test_an_answer_of_one_endpoint_that_cannot_be_used_concerns_its_node_alone(serve, session):
    bodies = {"n1": b"[" * 20_000 + b"]" * 20_000, "n2": b" " * 1_000_000, "n3": b'{"packagePowerWatts": 300}'}

    def answering(body):
        async def telemetry(_request):
            return web.Response(body=body)

        return telemetry

    url = await serve(**{f"telemetry__{name}": answering(body) for name, body in bodies.items()})
    nodes = [NodeName(name) for name in bodies]
    readings = HttpReadings(session, url + "/telemetry/{node}", lambda: nodes, interval_s=1)
    await readings.poll()
    assert [readings.reading(name) is None for name in nodes] == [True, True, False]


async def test_a_single_value_must_be_single(serve, session):
    start, _ = prometheus_answering(
        serve, session, {"status": "success", "data": {"resultType": "scalar", "result": [AT_S, "21"]}}
    )
    assert await (await start).value("scalar(x)") == 21
    start, _ = prometheus_answering(serve, session, vector())
    prometheus = await start
    with pytest.raises(QueryError, match="0 series"):
        await prometheus.value("x")
    start, _ = prometheus_answering(serve, session, vector(({}, "NaN")))
    prometheus = await start
    with pytest.raises(QueryError, match="x answers nan"):
        await prometheus.value("x")


async def test_series_of_one_node_are_added_up_and_unknown_nodes_are_left_out(serve, session):
    series = [
        ({"instance": "n1:9100", "zone": "package-0"}, "100"),
        ({"instance": "n1:9100", "zone": "package-1"}, "120"),
    ]
    start, _ = prometheus_answering(serve, session, vector(*series, ({"instance": "other:9100"}, "7")))
    readings = PrometheusReadings(await start, "watts", lambda: {N1, N2}, source=MeasurementSource.KEPLER, interval_s=1)
    await readings.poll()
    assert (readings.reading(N1).watts, readings.reading(N1).source) == (220, MeasurementSource.KEPLER)
    assert readings.reading(N2) is None


@pytest.mark.parametrize(("parts", "with_gpus"), [(["cpu"], False), (["cpu", "gpu"], True), ([""], True)])
async def test_series_of_the_cpus_alone_do_not_speak_for_the_gpus(serve, session, parts, with_gpus):
    start, _ = prometheus_answering(serve, session, vector(*(({"node": "n1", "part": part}, "50") for part in parts)))
    readings = PrometheusReadings(await start, "w", lambda: {N1}, source=MeasurementSource.KEPLER, interval_s=1)
    await readings.poll()
    assert readings.reading(N1).with_gpus is with_gpus


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        ([({"zone": "package-0"}, "0"), ({"zone": "package-1"}, "0")], None),
        ([({"zone": "package-0"}, "120"), ({"zone": "package-1"}, "0")], None),
        ([({"zone": "package-0"}, "-3")], None),
        ([({"zone": "package-0"}, "120"), ({"zone": "package-1"}, "NaN")], None),
        ([({"zone": "package-0"}, "120"), ({"zone": "package-1"}, "+Inf")], None),
        ([({"part": "cpu"}, "0"), ({"part": "gpu"}, "900")], None),
        ([({"part": "cpu"}, "120"), ({"part": "gpu"}, "0")], (120, False)),
        ([({"part": "gpu"}, "900")], None),
        (
            [({"part": "cpu"}, "120"), ({"part": "gpu", "gpu": "0"}, "900"), ({"part": "gpu", "gpu": "1"}, "0")],
            (120, False),
        ),
        ([({"part": "cpu"}, "120"), ({"part": "gpu"}, "900")], (1020, True)),
    ],
)
async def test_a_counter_that_stands_still_is_no_measurement(serve, session, series, expected):
    found = [({"node": "n1", **metric}, watts) for metric, watts in series]
    start, _ = prometheus_answering(serve, session, vector(*found))
    readings = PrometheusReadings(await start, "w", lambda: {N1}, source=MeasurementSource.KEPLER, interval_s=1)
    await readings.poll()
    reading = readings.reading(N1)
    assert (reading and (reading.watts, reading.with_gpus)) == expected


@pytest.mark.parametrize(
    ("found", "name"),
    [
        ({"node": "n1", "instance": "n2"}, N1),
        ({"node": "other", "instance": "n2:9100"}, N2),
        ({"exported_instance": "n1"}, N1),
        ({"job": "n1"}, None),
    ],
)
def test_a_series_names_its_node_by_the_most_specific_label(found, name):
    assert node_of(PrometheusSample(found, 1, AT_S), {N1, N2}) == name


class Forgetful(PowerTracker):
    """Measures anew each time."""

    def _until(self, *_args):
        return -math.inf


STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 10, 29, 60, 120, 180, 181, 300]),
        st.sampled_from(["same", "new", "late", "gone", "too high"]),
        st.sampled_from([0.0, 8.0, 64.0]),
        st.sampled_from([200.0, 250.0]),
    ),
    max_size=12,
)


@given(STEPS)
def test_a_result_that_is_kept_is_what_would_be_measured_anew(steps):
    meter, load = Meter(), PodLoad(pods=1)
    kept, anew = PowerTracker([meter], max_age_s=180), Forgetful([meter], max_age_s=180)
    node = PowerInputs(CPU_VIEW, PowerBudget(cpu_tdp_watts=560), load, max_watts=560)
    now = 0.0
    for pause_s, event, cpu_cores, watts in steps:
        now += pause_s
        load.cpu_cores = cpu_cores
        match event:
            case "new" | "late":
                at = now if event == "new" else now - 100
                meter.readings["n1"] = PowerSample(watts, at, MeasurementSource.AGENT)
            case "too high":
                meter.readings["n1"] = PowerSample(9000, now, MeasurementSource.AGENT)
            case "gone":
                meter.readings.pop("n1", None)
        assert kept.measure(N1, node, now) == anew.measure(N1, node, now)
        assert kept.measure(N1, node, now) == anew.measure(N1, node, now)


async def test_watts_whose_sum_is_beyond_all_numbers_are_too_high_for_that_node_alone(serve, session):
    endless = [({"node": "n1", "zone": zone}, "1.7e308") for zone in ("a", "b")]
    start, _ = prometheus_answering(serve, session, vector(*endless, ({"node": "n2"}, "300")))
    readings = PrometheusReadings(await start, "w", lambda: {N1, N2}, source=MeasurementSource.KEPLER, interval_s=1)
    await readings.poll()
    assert judge(readings.reading(N1).watts) is Plausibility.TOO_HIGH
    assert readings.reading(N2).watts == 300
