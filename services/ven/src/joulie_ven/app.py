"""The VEN as a process: events of a VTN in, PowerEvents and reports out.

One replica, without an election: the chart replaces it by ending the old one first.
"""

import asyncio
import random
import ssl
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import aiohttp

from joulie_api.answers import session_options
from joulie_api.app import App
from joulie_api.apply import FencedWriter
from joulie_api.client import KubeClient
from joulie_ven import VERSION
from joulie_ven.http import VtnHttp
from joulie_ven.keeper import EventKeeper
from joulie_ven.metrics import VenMetrics
from joulie_ven.poller import Poller
from joulie_ven.reports import ReportSender
from joulie_ven.settings import VenSettings
from joulie_ven.tokens import Tokens, VtnCredentials
from joulie_ven.vtn import Vtn

SERVICE: Final = "joulie-ven"


async def run(settings: VenSettings, app: App | None = None) -> None:
    """Run the VEN from its start to its orderly end; tests pass the `app` that they observe."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            await KubeClient.connect(kubeconfig=settings.kubeconfig or None, user_agent=f"{SERVICE}/{VERSION}")
        )
        tls = ssl.create_default_context(cafile=settings.vtn_ca_file or None)
        session = await stack.enter_async_context(
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=tls), cookie_jar=aiohttp.DummyCookieJar(), **session_options()
            )
        )
        app = await stack.enter_async_context(app or App(settings, service=SERVICE, version=VERSION))
        app.spawn("poll", _poller(settings, app, client, session).run())
        await app.wait()


def _poller(settings: VenSettings, app: App, client: KubeClient, session: aiohttp.ClientSession) -> Poller:
    metrics = VenMetrics(app.registry)
    http = VtnHttp(session, timeout_s=settings.vtn_request_timeout)
    tokens = Tokens(
        http,
        vtn_url=settings.vtn_url.rstrip("/"),
        token_url=settings.vtn_token_url,
        credentials=VtnCredentials(Path(settings.vtn_credentials_dir)),
        scope=settings.vtn_scope,
        clock=asyncio.get_running_loop().time,
    )
    vtn = Vtn(http, tokens, url=settings.vtn_url, wall=time.time)
    writer = FencedWriter(client, SERVICE, on_write=metrics.on_write)
    return Poller(
        vtn,
        EventKeeper(client, writer, app.failures),
        ReportSender(vtn, settings, metrics),
        settings=settings,
        metrics=metrics,
        failures=app.failures,
        wall=time.time,
        chance=random.random,
    )
