"""Serves simulated BMCs over TLS on this machine, each on a port of its own."""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from joulie_devcluster.control_plane.pki import Authority
from joulie_sim.bmc.service import SimulatedBmc

_HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ServedBmc:
    """A BMC that is served: `address` is its URL, `ca` the file with the certificate that verifies it."""

    bmc: SimulatedBmc
    address: str
    ca: Path


@asynccontextmanager
async def serve_bmc(bmc: SimulatedBmc, directory: Path, *, port: int = 0) -> AsyncIterator[ServedBmc]:
    """Serve a BMC while the context lasts; its certificates are written to `directory`.

    Raises:
        OSError: the port is taken.
    """
    ca, tls = _certificates(directory)
    async with _served(bmc, ca, tls, port) as served:
        yield served


@asynccontextmanager
async def serve_bmcs(bmcs: Mapping[str, SimulatedBmc], directory: Path) -> AsyncIterator[dict[str, ServedBmc]]:
    """Serve BMCs by name while the context lasts, all with the certificates that are written to `directory`."""
    ca, tls = _certificates(directory)
    async with AsyncExitStack() as stack:
        yield {name: await stack.enter_async_context(_served(bmc, ca, tls)) for name, bmc in bmcs.items()}


def _certificates(directory: Path) -> tuple[Path, ssl.SSLContext]:
    """Return the file with the authority's certificate, and the context of servers."""
    authority = Authority.create("simulated BMC")
    certificate, key = authority.issue_server("bmc", [_HOST, "localhost"]).write(directory, "bmc")
    ca, _ = authority.pair.write(directory, "bmc-ca")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    return ca, tls


@asynccontextmanager
async def _served(bmc: SimulatedBmc, ca: Path, tls: ssl.SSLContext, port: int = 0) -> AsyncIterator[ServedBmc]:
    runner = web.AppRunner(bmc.application(), shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, _HOST, port, ssl_context=tls)
        await site.start()
        bound = runner.addresses[0][1]
        yield ServedBmc(bmc, f"https://{_HOST}:{bound}", ca)
    finally:
        await runner.cleanup()
