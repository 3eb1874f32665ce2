"""A running system as a test handles it."""

import asyncio
import json
import random
import re
from typing import Any

import pytest
from tests.e2e.view import ClusterView

from joulie_api.errors import NotFound
from joulie_api.resources import NODE_HARDWARES
from joulie_sim.stack.service import JoulieService, Service
from joulie_sim.stack.stack import JoulieStack

#: Environment of operators of which a successor leads soon.
SHORT_LEASE = {"LEASE_DURATION": "8s", "LEASE_RENEW_DEADLINE": "6s", "LEASE_RETRY_PERIOD": "500ms"}
_MODE = re.compile(r'joulie_backend_mode\{[^}]*node="([^"]+)"')
_WRITES = re.compile(r'joulie_operator_writes_total\{[^}]*kind="([^"]+)"[^}]*\} ([0-9.e+]+)')


class System:
    """The services of one cluster and a view of what they do."""

    def __init__(self, stack: JoulieStack, view: ClusterView) -> None:
        self.stack = stack
        self.view = view
        self.operator = stack.operator
        self.agents = stack.agents
        self.extender = stack.extender

    async def start_second_operator(self) -> JoulieService:
        """Start a stand-by operator and wait until it is ready."""
        return await self.stack.start(Service.OPERATOR, "joulie-operator-2")

    async def hardware(self, node: str) -> dict[str, Any]:
        """`status` of the node's NodeHardware; AssertionError where it has none."""
        try:
            return json.loads(await self.view.client.get(NODE_HARDWARES, node))["status"]
        except (NotFound, KeyError) as error:
            raise AssertionError(f"{node} has no report of its hardware yet") from error

    async def assert_caps(self, node: str, *, eco: bool) -> None:
        """The simulator holds the node's caps where its profile wants them.

        CPU-only nodes are capped at the CPU, GPU nodes at the GPU: 60 % of the maximum for eco, all of it otherwise.
        """
        controls, hardware = (await self.view.simulated(node))["controls"], await self.hardware(node)
        gpu, share = hardware.get("gpu", {}), 0.6 if eco else 1.0
        if gpu.get("present"):
            limits = gpu["capRangePerGpu"]
            expected = max(share * limits["maxWatts"], limits["minWatts"])
            assert controls["capWattsPerGpu"] == pytest.approx(expected), node
            share = 1.0
        limits = hardware["cpu"]["capRange"]
        expected = max(share * limits["maxWattsPerSocket"], limits["minWattsPerSocket"])
        assert controls["capWatts"] == pytest.approx(expected), node

    async def nodes_of(self, agent: JoulieService) -> set[str]:
        """Nodes that an agent serves, by its own metrics."""
        return set(_MODE.findall(await agent.metrics()))

    async def writes(self) -> dict[str, float]:
        """What the operator wrote so far, by kind."""
        totals: dict[str, float] = {}
        for kind, total in _WRITES.findall(await self.operator.metrics()):
            totals[kind] = totals.get(kind, 0) + float(total)
        return totals

    async def wait_random(self, dice: random.Random, *, up_to_s: float) -> None:
        """Let the system run for a random time, so that what follows hits it at any moment."""
        await asyncio.sleep(dice.uniform(0, up_to_s))
