"""The out-of-band service as a process: a watch of NodeBMCs in, requests to BMCs and statuses out.

One replica leads and reaches BMCs; losing the lease ends the process.
"""

import asyncio
import random
import time
from contextlib import AsyncExitStack
from typing import Final

import aiohttp

from joulie_api.answers import session_options
from joulie_api.app import App
from joulie_api.apply import FencedWriter
from joulie_api.client import KubeClient
from joulie_api.elected import elector_of
from joulie_api.metrics import NodeSeriesCollector
from joulie_api.reflector import Reflector
from joulie_api.resources import NODE_BMCS
from joulie_api.wire import Versioned, decode_kind
from joulie_core.kinds import NodeBMC, NodeBMCSpec
from joulie_core.kinds.node_bmc import BmcProtocol
from joulie_outofband import VERSION
from joulie_outofband.bmc import Bmc
from joulie_outofband.bmc_worker import BmcWorker
from joulie_outofband.endpoint import parse_endpoint
from joulie_outofband.ipmi.bmc import IpmiBmc
from joulie_outofband.metrics import OutOfBandMetrics, families
from joulie_outofband.parts import WorkerParts, WorkerTimes
from joulie_outofband.power import PowerTimeouts
from joulie_outofband.publish import StatusPublisher
from joulie_outofband.redfish.bmc import RedfishBmc
from joulie_outofband.redfish.connection import RedfishConnection
from joulie_outofband.rejections import FIELD_MANAGER as REJECTIONS_MANAGER
from joulie_outofband.rejections import Rejections
from joulie_outofband.secrets import read_access, read_credentials
from joulie_outofband.settings import OutOfBandSettings
from joulie_outofband.supervisor import BmcSupervisor
from joulie_outofband.wol import WolServer

SERVICE: Final = "joulie-outofband"
#: Owner of the fields that the service writes, and name of its Lease.
FIELD_MANAGER: Final = SERVICE


async def run(settings: OutOfBandSettings, app: App | None = None) -> None:
    """Run the service from its start to its orderly end; tests pass the `app` that they observe."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            await KubeClient.connect(kubeconfig=settings.kubeconfig or None, user_agent=f"{SERVICE}/{VERSION}")
        )
        # A BMC gets one request at a time, and no cookie of another's.
        connector = aiohttp.TCPConnector(limit=0, limit_per_host=1)
        session = await stack.enter_async_context(
            aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), **session_options())
        )
        app = await stack.enter_async_context(app or App(settings, service=SERVICE, version=VERSION))
        service = OutOfBand(settings, app, client, session)
        service.start()
        await app.wait()


class OutOfBand:
    """The parts of one process, connected."""

    def __init__(
        self, settings: OutOfBandSettings, app: App, client: KubeClient, session: aiohttp.ClientSession
    ) -> None:
        self._settings = settings
        self._app = app
        self._client = client
        self._session = session
        self._metrics = OutOfBandMetrics(app.registry)
        self._elector = elector_of(settings, client, SERVICE)
        self._writes = FencedWriter(
            client, FIELD_MANAGER, guard=self._elector.is_leading, on_write=self._metrics.on_write
        )
        self._bmcs: Reflector[Versioned[NodeBMC]] = Reflector(client, NODE_BMCS, decode_kind(NodeBMC))
        self._parts = WorkerParts(
            connect=self._connect,
            client=client,
            observer=self._metrics,
            failures=app.failures,
            times=_times(settings),
            may_write=self._elector.is_leading,
            clock=asyncio.get_running_loop().time,
            wall=time.time,
            chance=random.random,
        )
        rejected = FencedWriter(
            client, REJECTIONS_MANAGER, guard=self._elector.is_leading, on_write=self._metrics.on_write
        )
        self._supervisor = BmcSupervisor(
            self._bmcs,
            self._worker,
            rejections=Rejections(rejected, app.failures, wall=time.time),
            failures=app.failures,
            retry_s=settings.bmc_transition_interval,
        )

    def start(self) -> None:
        """Start every task; the election last, so that it ends first and releases the lease."""
        self._app.watch(self._bmcs)
        self._app.registry.register(NodeSeriesCollector(lambda: families(self._supervisor.series)))
        self._app.spawn("lead", self._elector.run(self._supervisor.run))

    def _worker(self, bmc: Versioned[NodeBMC]) -> BmcWorker:
        publisher = StatusPublisher(
            bmc.name,
            bmc.model.status,
            self._writes,
            heartbeat_s=self._settings.status_heartbeat,
            clock=self._parts.clock,
            wall=self._parts.wall,
        )
        return BmcWorker(bmc, publisher, self._parts)

    async def _connect(self, spec: NodeBMCSpec) -> Bmc:
        endpoint = parse_endpoint(spec.address)
        namespace, timeout_s = self._settings.pod_namespace, self._settings.bmc_request_timeout
        if spec.protocol is BmcProtocol.WOL:
            return WolServer(endpoint, spec.mac or "")
        if spec.protocol is BmcProtocol.IPMI:
            username, password = await read_credentials(self._client, spec, endpoint, namespace)
            return IpmiBmc(endpoint, username, password, request_timeout_s=timeout_s)
        access = await read_access(self._client, spec, endpoint, namespace)
        connection = RedfishConnection(self._session, str(endpoint), access, request_timeout_s=timeout_s)
        return RedfishBmc(connection, system=spec.system)


def _times(settings: OutOfBandSettings) -> WorkerTimes:
    return WorkerTimes(
        poll_s=settings.bmc_poll_interval,
        transition_s=settings.bmc_transition_interval,
        pass_timeout_s=settings.bmc_pass_timeout,
        close_timeout_s=settings.bmc_request_timeout,
        credentials_retry_s=settings.bmc_credentials_retry,
        boot_timeout_s=settings.boot_timeout,
        power=PowerTimeouts(graceful_s=settings.graceful_off_timeout, repeat_s=settings.power_repeat_interval),
    )
