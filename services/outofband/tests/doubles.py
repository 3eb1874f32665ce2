"""A BMC, the API server and the time, as tests of single parts need them: what is sent is recorded."""

import json
from dataclasses import dataclass, replace
from types import SimpleNamespace

from prometheus_client import CollectorRegistry

from joulie_api.failures import Failures
from joulie_api.resources import NODE_BMCS
from joulie_api.wire import decode_kind
from joulie_core.kinds import NodeBMC, NodeBMCStatus
from joulie_core.kinds.node_bmc import BmcCapability, PowerState
from joulie_outofband.bmc import BmcReport, PowerLimit
from joulie_outofband.parts import WorkerParts, WorkerTimes
from joulie_outofband.power import PowerTimeouts
from joulie_outofband.publish import StatusPublisher
from joulie_testing.api import make_node_bmc

CAPABILITY = BmcCapability(readable=True, cappable=True, reset_types=("On", "GracefulShutdown", "ForceOff"))
REPORT = BmcReport(
    power_state=PowerState.ON, watts=344.0, interval_s=60.0, limit=PowerLimit(None), capability=CAPABILITY
)
#: 2020-09-13T12:26:40Z.
NOW_S = 1_600_000_000.0


class Bmc:
    """A BMC with a report; `fail` raises at the named call, `calls` are all of them, `limits` what was written."""

    def __init__(self, report=REPORT):
        self.now = report
        self.fail = {}
        self.calls = []
        #: What is read after a limit was written; by default that.
        self.reads = lambda watts: watts

    async def _call(self, name, *args):
        self.calls.append((name, *args))
        failure = self.fail.get(name)
        if isinstance(failure, BaseException):
            raise failure
        if failure is not None:
            await failure()

    async def report(self):
        await self._call("report")
        return self.now

    async def limit(self):
        await self._call("limit")
        return self.now.limit

    async def set_limit(self, watts):
        await self._call("set_limit", watts)
        self.now = replace(self.now, limit=PowerLimit(self.reads(watts)))

    async def reset(self, kind):
        await self._call("reset", kind)

    async def close(self):
        await self._call("close")

    def count(self, name):
        return len([each for each in self.calls if each[0] == name])


class Api:
    """The API server: `applied` are the bodies of writes, `nodes` and `bmcs` what it has, or fails with."""

    def __init__(self):
        self.applied = []
        self.failure = None
        self.nodes, self.bmcs = {}, {}
        self.read = []
        #: Pods that the lists have, one list for each request; without any, there are none.
        self.pods = []
        self.listed = []
        self.on_apply = lambda: None

    async def apply(self, res, name, body, *, status=False):
        self.on_apply()
        if self.failure is not None:
            raise self.failure
        self.applied.append((res.full_name, name, body, status))

    async def get(self, res, name, namespace=None):
        self.read.append((res.full_name, name, namespace))
        found = (self.bmcs if res is NODE_BMCS else self.nodes).get(name)
        if isinstance(found, Exception):
            raise found
        return json.dumps(found).encode()

    async def list_page(self, res, *, field_selector="", continue_token="", metadata_only=False, max_bytes=None):
        self.listed.append((res.full_name, field_selector, metadata_only))
        found = self.pods.pop(0) if self.pods else []
        if isinstance(found, Exception):
            raise found
        return json.dumps({"metadata": {}, "items": found}).encode()

    @property
    def status(self):
        """The last status that was written."""
        return self.applied[-1][2]["status"]


class Observer:
    def __init__(self):
        self.passes = []
        self.actions = []

    def on_pass(self, reason, duration_s):
        self.passes.append((reason, duration_s))

    def on_action(self, action, *, done):
        self.actions.append((action.value, done))


@dataclass
class Time:
    now: float = 0.0
    wall: float = NOW_S


TIMES = WorkerTimes(
    poll_s=30.0,
    transition_s=5.0,
    pass_timeout_s=5.0,
    close_timeout_s=0.05,
    credentials_retry_s=300.0,
    boot_timeout_s=1200.0,
    power=PowerTimeouts(graceful_s=180.0, repeat_s=60.0),
)


def bench(bmc=None, status=None, *, times=TIMES, heartbeat_s=60.0):
    """Return everything that a part of one NodeBMC needs."""
    found = SimpleNamespace(
        bmc=bmc or Bmc(), api=Api(), observer=Observer(), time=Time(), leads=True, registry=CollectorRegistry()
    )
    found.connected = []

    async def connect(spec):
        found.connected.append(spec)
        return found.bmc

    found.failures = Failures(found.registry)
    found.parts = WorkerParts(
        connect=connect,
        client=found.api,
        observer=found.observer,
        failures=found.failures,
        times=times,
        may_write=lambda: found.leads,
        clock=lambda: found.time.now,
        wall=lambda: found.time.wall,
        chance=lambda: 0.5,
    )
    found.publisher = StatusPublisher(
        "n1",
        status or NodeBMCStatus(),
        found.api,
        heartbeat_s=heartbeat_s,
        clock=found.parts.clock,
        wall=found.parts.wall,
    )
    return found


def raw_node_bmc(name="n1", *, annotations=None, generation=3, **spec):
    """Return a NodeBMC as the API server has it."""
    body = make_node_bmc(name, spec=spec)
    body["metadata"] |= {
        "generation": generation,
        "annotations": annotations or {},
        "uid": "u1",
        "resourceVersion": "1",
    }
    return body


def node_bmc(name="n1", **given):
    """Return a NodeBMC as it is read; arguments of `raw_node_bmc`."""
    return decode_kind(NodeBMC)(json.dumps(raw_node_bmc(name, **given)).encode())


def conditions(status):
    """Return status and reason by type, of a status or of its JSON."""
    found = status["conditions"] if isinstance(status, dict) else status.dump().get("conditions", ())
    return {each["type"]: (each["status"], each["reason"]) for each in found}


def counted(registry, metric, **labels):
    """Return the value of a counter, 0 where it was never counted."""
    return registry.get_sample_value(f"{metric}_total", labels) or 0
