"""Node agents in the test's process: an API server with watches, and a resource manager behind a real socket."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from services.containers.tests.node_agent.scripted_manager import ScriptedManager

from joulie_api.client import KubeClient
from joulie_api.failures import Failures
from joulie_api.wire import decode_node
from joulie_containers.node_agent.agent import NodeAgent
from joulie_containers.node_agent.consents import PodConsentsWatch
from joulie_containers.node_agent.pusher import Pace
from joulie_containers.resource_api.cluster import ClusterClient
from joulie_core.kinds.base import Profile
from joulie_sim.stack.permissions import denied
from joulie_testing.api import FakeApiServer, make_node

PACE = Pace(
    push_interval_s=0,
    retry_initial_s=0.01,
    retry_cap_s=0.05,
    poll_interval_s=0.01,
    topology_interval_s=0,
    compare_interval_s=30,
)
WALL_TIME_S = 1_800_000_000.0


@dataclass
class Stage:
    """The API server, the resource manager, and node agents of node n1."""

    api: FakeApiServer
    client: KubeClient
    manager: ScriptedManager
    directory: Path
    profile: Profile | None = None
    pace: Pace = PACE
    report_success: bool = True
    consents: PodConsentsWatch | None = None
    agents: list[NodeAgent] = field(default_factory=list)
    failures: Failures = field(default_factory=lambda: Failures(CollectorRegistry()))

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[NodeAgent]:
        """Run a node agent; on leaving, it ends as at the end of its process."""
        agent = NodeAgent(
            self.client,
            node_name="n1",
            config_socket=self.manager.socket,
            cluster_socket=self.directory / "cluster.sock",
            node=self._node,
            profile=lambda: self.profile,
            wall_time=lambda: WALL_TIME_S,
            failures=self.failures,
            report_success=self.report_success,
            consents=self.consents,
            pace=self.pace,
        )
        watches = (*agent.reflectors, *(self.consents.reflectors if self.consents else ()))
        tasks = [asyncio.create_task(each.run()) for each in watches]
        tasks.append(asyncio.create_task(agent.run()))
        self.agents.append(agent)
        try:
            yield agent
        finally:
            self.agents.remove(agent)
            for task in reversed(tasks):
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended

    def relabel(self, labels: Mapping[str, str | None]) -> None:
        self.api.patch("Node", "n1", {"metadata": {"labels": labels}})
        for agent in self.agents:
            agent.wake()

    def entry(self, kind: str, name: str) -> dict[str, Any] | None:
        """The entry of node n1 in an object's status."""
        found = self.api.get(kind, name) or {}
        entry: dict[str, Any] | None = found.get("status", {}).get("nodes", {}).get("n1")
        return entry

    async def until_entry(self, kind: str, name: str, **expected: Any) -> dict[str, Any]:
        """Wait for an entry with these fields and return it."""

        def holds() -> bool:
            entry = self.entry(kind, name)
            return entry is not None and all(entry.get(key) == value for key, value in expected.items())

        try:
            await self.api.wait_for(holds)
        except TimeoutError:
            pytest.fail(f"the entry is {self.entry(kind, name)}, not {expected}")
        return self.entry(kind, name) or {}

    def _node(self) -> Any:
        found = self.api.get("Node", "n1")
        return None if found is None else decode_node(msgspec.json.encode(found))


@pytest.fixture
async def stage(fake_api: FakeApiServer, fake_client: KubeClient, tmp_path: Path) -> AsyncIterator[Stage]:
    fake_api.put(make_node("n1"))
    manager = ScriptedManager(tmp_path / "config.sock")
    await manager.start()
    yield Stage(fake_api, fake_client, manager, tmp_path)
    await manager.stop()
    assert denied("joulie-agent", fake_api.requests) == []


@pytest.fixture
async def cluster_client(stage: Stage) -> AsyncIterator[ClusterClient]:
    """A client of the node agent, which runs."""
    client = ClusterClient(stage.directory / "cluster.sock")
    async with stage.agent():
        yield client
        await client.close()
