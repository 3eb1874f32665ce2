"""A short campaign of `just fuzz`: the real process, a fixed seed."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from typing import Any

import pytest
from tools.fuzz.client import Connection, SlowClients, send_raw
from tools.fuzz.mutator import Mutator, corpus, request
from tools.fuzz.run import Findings, fuzz
from tools.fuzz.target import run_target

pytestmark = pytest.mark.timeout(120)

_LIMITED = ("http request refused", "claim unknown, counted as a whole gpu")
_BAD_CHUNK = b"POST /filter HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n"


async def test_two_thousand_bodies_leave_the_extender_as_it_was() -> None:
    findings = await fuzz(bodies=2_000, seed=20)
    assert not findings.failures, findings.report()
    assert findings.bodies == findings.answers.total() == 2_000
    assert set(findings.answers) == {"200", "400"}
    assert {"400", "415"} <= set(findings.odd_answers)


def test_a_seed_gives_the_same_requests_again() -> None:
    first, second = Mutator(3), Mutator(3)
    assert [first.body() for _ in range(50)] == [second.body() for _ in range(50)]
    assert [first.raw() for _ in range(50)] == [second.raw() for _ in range(50)]


async def test_the_corpus_is_answered_200_and_what_is_encoded_415() -> None:
    async with run_target() as target:
        port = target.ports["extender"]
        with closing(Connection(port)) as connection:
            statuses = connection.exchange([request(b"/prioritize", body) for body in corpus()])
        assert statuses == [200] * len(corpus())
        encoded = request(b"/filter", corpus()[0], b"Content-Encoding: gzip")
        assert send_raw(port, encoded, leave=False, quiet_s=30.0) == {"415": 1}
        assert json.loads(corpus()[0])["NodeNames"]


async def test_refused_requests_and_unknown_claims_share_a_line_a_second() -> None:
    body = json.loads(corpus()[0])
    started_at = time.monotonic()
    async with run_target() as target:
        port, requests = target.ports["extender"], 0
        with closing(Connection(port)) as connection:
            # Each round causes two lines, which a second lasts for however slow the machine is.
            while len(_limited(target.lines)) < 3:
                body["Pod"]["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": f"gone-{requests}"}]
                known = request(b"/prioritize", json.dumps(body).encode())
                assert await asyncio.to_thread(connection.exchange, [known]) == [200]
                refused = await asyncio.to_thread(send_raw, port, _BAD_CHUNK, leave=False, quiet_s=30.0)
                assert refused == {"400": 1}
                requests += 2
    elapsed_s = time.monotonic() - started_at
    lines = _limited(target.lines)
    assert len(lines) <= elapsed_s + 1, Counter(line["event"] for line in lines)
    assert sum(1 + line["suppressed"] for line in lines) <= requests


def _limited(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Return the lines that share the limit."""
    found = [json.loads(line) for line in list(lines)]
    return [each for each in found if each["event"] in _LIMITED]


async def test_an_announced_body_takes_no_memory_before_it_arrives() -> None:
    async with run_target() as target:
        before, port = target.rss_mib, target.ports["extender"]
        announced = b"POST /filter HTTP/1.1\r\nHost: a\r\nContent-Length: 120000000\r\n\r\n{"
        assert send_raw(port, announced, leave=False) == {"none": 1}
        with closing(SlowClients(port, 5)) as clients:
            for _ in range(5):
                clients.step(announced)
            with closing(Connection(port)) as connection:
                assert connection.exchange([request(b"/filter", corpus()[0])]) == [200]
            assert target.rss_mib - before < 50


def test_memory_that_grows_after_the_first_tenth_is_a_failure() -> None:
    findings = Findings(rss_mib=[50.0, 90.0, *[92.0] * 18])
    findings.check_growth()
    assert not findings.failures
    findings.rss_mib.append(130.0)
    findings.check_growth()
    assert findings.failures == ["memory grew from 92 to 130 MiB"]


def test_more_than_a_line_a_second_is_a_failure() -> None:
    findings = Findings(duration_s=20.0)
    lines = [json.dumps({"event": event}) + "\n" for event in ("http request refused", "claim unknown")] * 15
    findings.check_log(lines)
    assert not findings.failures
    findings.check_log([*lines, lines[0]])
    assert findings.log_lines == 31
    assert [failure.partition("\n")[0] for failure in findings.failures] == [
        f"31 log lines in 20 s: {lines[0].strip()}"
    ]
