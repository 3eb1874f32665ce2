"""The command line against an in-process API server."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from joulie_cli import prometheus
from joulie_cli.__main__ import perform
from joulie_cli.arguments import make_parser
from joulie_testing.api import FakeApiServer
from joulie_testing.prometheus import FakePrometheus, answer


@dataclass(frozen=True)
class CliResult:
    code: int
    out: str
    err: str


Cli = Callable[..., Awaitable[CliResult]]


@pytest.fixture
def cli(fake_api: FakeApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a verb, and returns its exit code and output."""
    kubeconfig = fake_api.kubeconfig(tmp_path)

    async def run(verb: str, *arguments: str) -> CliResult:
        options = make_parser().parse_args([verb, "--kubeconfig", str(kubeconfig), *arguments])
        code = await perform(options)
        written = capsys.readouterr()
        return CliResult(code, written.out, written.err)

    return run


@pytest.fixture
async def fake() -> AsyncIterator[FakePrometheus]:
    """A Prometheus, which has nothing."""
    found = FakePrometheus(answer())
    app = web.Application()
    app.router.add_route("*", "/{any:.*}", found.answer)
    async with TestServer(app) as server:
        found.url = str(server.make_url("/")).rstrip("/")
        yield found


@pytest.fixture
def since(cli: Cli, fake: FakePrometheus) -> Cli:
    """Runs the verb for a day on the fake."""

    async def run(*arguments: str) -> CliResult:
        return await cli("energy", "--since", "24h", "--prometheus", fake.url, *arguments)

    return run


@pytest.fixture
def small_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accepts 1,000 bytes."""
    monkeypatch.setattr(prometheus, "MAX_ANSWER_BYTES", 1_000)
