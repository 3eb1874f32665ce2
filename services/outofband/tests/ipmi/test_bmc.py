"""The requests of one IPMI BMC, with a session that stands for the library's."""

import asyncio
import threading

import pytest
from services.outofband.tests.ipmi.test_messages import limit, reading

from joulie_core.kinds.node_bmc import BmcCapability, LimitException, PowerLimitUnit, PowerState
from joulie_outofband.bmc import BmcReport, PowerLimit
from joulie_outofband.endpoint import parse_endpoint
from joulie_outofband.ipmi import bmc as ipmi_bmc
from joulie_outofband.reasons import BmcError, BmcReason

STATUS, READING, LIMIT = (0x00, "01"), (0x2C, "02dc010000"), (0x2C, "03dc0000")


class Session:
    """Answers by the request; the last answer of a list is repeated."""

    def __init__(self, **answers):
        self.answers = {STATUS: [b"\x00\x01"], READING: [reading(344)], LIMIT: [limit(250)]} | answers.get(
            "answers", {}
        )
        self.asked = []
        self.opened = []
        self.closed = 0
        self.threads = set()

    def __call__(self, *args, **how):
        self.opened.append((args, how))
        return self

    def ask(self, network_function, message):
        self.threads.add(threading.current_thread().name)
        key = (network_function, message.hex())
        self.asked.append(key)
        answers = self.answers.get(key, [b"\x00"])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def close(self):
        self.closed += 1


@pytest.fixture
def start(monkeypatch):
    def make(address="ipmi://10.0.0.17", **answers):
        session = Session(answers=answers.get("answers", {}))
        monkeypatch.setattr(ipmi_bmc, "IpmiSession", session)
        return ipmi_bmc.IpmiBmc(parse_endpoint(address), "root", "calvin", request_timeout_s=7.0), session

    return make


async def test_a_report_has_the_state_the_watts_and_the_limit(start):
    bmc, session = start()
    assert await bmc.report() == BmcReport(
        power_state=PowerState.ON,
        watts=344.0,
        interval_s=None,
        limit=PowerLimit(250.0, max_watts=65535.0),
        capability=BmcCapability(
            readable=True,
            cappable=True,
            unit=PowerLimitUnit.WATTS,
            limit_exception=LimitException.LOG_EVENT_ONLY,
            cap_path="dcmi:power-limit",
            reading_path="dcmi:power-reading",
            reset_types=("On", "ForceOff", "GracefulShutdown"),
        ),
    )
    assert session.asked == [STATUS, READING, LIMIT]
    assert session.opened == [(("10.0.0.17", 623, "root", "calvin"), {"request_timeout_s": 7.0})]
    await bmc.report()
    assert len(session.opened) == 1
    await bmc.close()
    assert session.closed == 1


async def test_the_port_of_the_address_is_used_and_one_thread_serves_a_bmc(start):
    bmc, session = start("ipmi://bmc-17:6230")
    await bmc.report()
    assert session.opened[0][0][:2] == ("bmc-17", 6230)
    assert len(session.threads) == 1
    assert next(iter(session.threads)).startswith("ipmi bmc-17")
    await bmc.close()


async def test_a_bmc_without_dcmi_has_its_power_state_only(start):
    bmc, session = start(answers={STATUS: [b"\x00\x00"], READING: [b"\xc1"], LIMIT: [b"\xc1"]})
    report = await bmc.report()
    assert (report.power_state, report.watts, report.limit) == (PowerState.OFF, None, None)
    assert report.capability == BmcCapability(
        readable=False, cappable=False, reset_types=("On", "ForceOff", "GracefulShutdown")
    )
    assert session.asked == [STATUS, READING, READING, READING, LIMIT]
    await bmc.close()


async def test_an_empty_first_reading_is_read_again(start):
    bmc, session = start(answers={READING: [b"\x00", reading(0), reading(301)]})
    report = await bmc.report()
    assert (report.watts, report.capability.readable) == (301.0, True)
    assert session.asked.count(READING) == 3
    await bmc.close()


async def test_a_bmc_that_measures_nothing_now_is_readable_and_unknown(start):
    bmc, _ = start(answers={READING: [reading(0)]})
    report = await bmc.report()
    assert (report.watts, report.capability.readable, report.capability.reading_path) == (
        None,
        True,
        "dcmi:power-reading",
    )
    await bmc.close()


async def test_a_limit_that_is_not_active_is_none_in_force(start):
    bmc, _ = start(answers={LIMIT: [limit(250, code=0x80)]})
    assert await bmc.limit() == PowerLimit(None, max_watts=65535.0)
    await bmc.close()


async def test_a_limit_is_set_in_whole_watts_and_then_put_in_force(start):
    bmc, session = start()
    await bmc.set_limit(300.9)
    assert session.asked == [LIMIT, (0x2C, "04dc000000112c01d007000000000700"), (0x2C, "05dc010000")]
    await bmc.close()


async def test_a_limit_is_switched_off_without_being_set(start):
    bmc, session = start()
    await bmc.set_limit(None)
    assert session.asked == [LIMIT, (0x2C, "05dc000000")]
    await bmc.close()


async def test_a_bmc_without_a_limit_is_not_written_to(start):
    bmc, session = start(answers={LIMIT: [b"\xc1"]})
    assert await bmc.limit() is None
    with pytest.raises(BmcError, match="no power limit") as caught:
        await bmc.set_limit(300)
    assert (caught.value.reason, session.asked) == (BmcReason.NO_LIMIT, [LIMIT, LIMIT])
    await bmc.close()


@pytest.mark.parametrize(
    ("refused", "names"),
    [("04dc000000112c01d007000000000700", "set power limit"), ("05dc010000", "activate power limit")],
)
async def test_a_limit_that_is_refused_is_named(start, refused, names):
    bmc, session = start(answers={(0x2C, refused): [b"\x84"]})
    with pytest.raises(BmcError, match=f"^{names}: completion code 0x84") as caught:
        await bmc.set_limit(300)
    assert (caught.value.reason, session.asked[-1]) == (BmcReason.OUT_OF_RANGE, (0x2C, refused))
    await bmc.close()


@pytest.mark.parametrize(("kind", "message"), [("On", "0201"), ("ForceOff", "0200"), ("GracefulShutdown", "0205")])
async def test_a_reset_is_a_chassis_control(start, kind, message):
    bmc, session = start()
    await bmc.reset(kind)
    assert session.asked == [(0x00, message)]
    session.answers[(0x00, message)] = [b"\xc0"]
    with pytest.raises(BmcError, match=f"^{kind}: ") as caught:
        await bmc.reset(kind)
    assert caught.value.reason is BmcReason.BUSY
    await bmc.close()


async def test_a_bmc_that_was_never_asked_is_closed_without_a_session(start):
    bmc, session = start()
    await bmc.close()
    assert (session.opened, session.closed) == ([], 0)


async def test_the_thread_ends_also_where_the_session_is_not_closed(start, monkeypatch):
    bmc, session = start()
    await bmc.report()
    monkeypatch.setattr(session, "close", lambda: (_ for _ in ()).throw(BmcError(BmcReason.TIMED_OUT, "x")))
    with pytest.raises(BmcError):
        await bmc.close()
    with pytest.raises(RuntimeError, match="shutdown"):
        await bmc.report()


class Held(Session):
    """A session whose first request has its answer when `ends` is set."""

    def __init__(self, **answers):
        super().__init__(**answers)
        self.holds, self.ends = threading.Event(), threading.Event()
        self.answered = []

    def ask(self, network_function, message):
        answer = super().ask(network_function, message)
        self.holds.set()
        self.ends.wait(5)
        self.answered.append((network_function, message.hex()))
        return answer


@pytest.fixture
async def held(monkeypatch):
    """A BMC whose session was asked for its limit, which was given up before the answer."""
    session = Held()
    monkeypatch.setattr(ipmi_bmc, "IpmiSession", session)
    bmc = ipmi_bmc.IpmiBmc(parse_endpoint("ipmi://held"), "root", "calvin", request_timeout_s=7.0)
    first = asyncio.create_task(bmc.limit())
    await asyncio.to_thread(session.holds.wait, 5)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    yield bmc, session
    session.ends.set()


async def test_a_request_waits_for_one_that_was_given_up(held):
    bmc, session = held
    second = asyncio.create_task(bmc.reset("On"))
    await asyncio.sleep(0)  # it is submitted
    assert len([each for each in threading.enumerate() if each.name.startswith("ipmi held")]) == 1
    assert session.asked == [LIMIT]
    session.ends.set()
    await second
    assert session.answered == [LIMIT, (0x00, "0201")]
    await bmc.close()
    assert session.closed == 1


async def test_an_end_that_is_given_up_does_not_wait_for_the_thread(held):
    bmc, session = held
    closing = asyncio.create_task(bmc.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert session.answered == []
    with pytest.raises(RuntimeError, match="shutdown"):
        await bmc.limit()


async def test_an_end_that_is_given_up_closes_the_session_when_the_request_is_over(held):
    bmc, session = held
    closing = asyncio.create_task(bmc.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    thread = next(each for each in threading.enumerate() if each.name.startswith("ipmi held"))
    session.ends.set()
    await asyncio.to_thread(thread.join, 5)
    assert (session.answered, session.closed) == ([LIMIT], 1)
