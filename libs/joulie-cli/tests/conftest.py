"""The command line against an in-process API server."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from joulie_cli.__main__ import perform
from joulie_cli.arguments import make_parser
from joulie_testing.api import FakeApiServer


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
