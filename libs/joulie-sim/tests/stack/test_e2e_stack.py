"""The services as processes on a real control plane: permissions, ports and restarts."""

import asyncio
import json

import pytest

from joulie_api.errors import NotFound
from joulie_api.resources import NODE_TWINS, NODES, PODS
from joulie_devcluster.control_plane.nodes import default_node_classes, scale
from joulie_devcluster.control_plane.state import ClusterState, start_ticks
from joulie_devcluster.fixtures import create_namespace
from joulie_sim.stack.service import Service
from joulie_sim.stack.stack import JoulieStack, StackConfig
from joulie_testing.api.builders import make_pod

pytestmark = pytest.mark.e2e

DEADLINE_S = 30.0


async def until(condition):
    async with asyncio.timeout(DEADLINE_S):
        while not await condition():  # noqa: ASYNC110 - the services signal no event
            await asyncio.sleep(0.1)


async def test_the_stack_starts_with_the_permissions_of_its_roles_and_schedules_a_pod(fresh_devcluster):
    cluster = await fresh_devcluster(nodes=scale(default_node_classes(), 10))
    async with JoulieStack(cluster) as stack, await cluster.client() as client:
        assert [agent.name for agent in stack.agents] == ["joulie-agent-0", "joulie-agent-1"]

        async def every_node_is_labelled_and_has_a_twin():
            nodes, twins = await client.list(NODES), await client.list(NODE_TWINS)
            labelled = [node for node in nodes if "joulie.io/power-profile" in node["metadata"]["labels"]]
            return len(labelled) == len(twins) == 10

        await until(every_node_is_labelled_and_has_a_twin)
        namespace = await create_namespace(client)
        await client.create(PODS, make_pod("p", namespace, cpu=1, workload_class="performance"), namespace)

        async def the_pod_runs():
            return json.loads(await client.get(PODS, "p", namespace))["status"].get("phase") == "Running"

        await until(the_pod_runs)
        assert (
            'joulie_scheduler_filter_requests_total{workload_class="performance"} 1.0' in await stack.extender.metrics()
        )
        for service in stack.services.values():
            assert "forbidden" not in service.log().lower()
        recorded = {record.name for record in ClusterState.read(cluster.directory).processes}
        assert set(stack.services) < recorded
        pids = [service.pid for service in stack.services.values()]
    assert all(start_ticks(pid) is None for pid in pids)
    cluster.check()


async def test_a_service_is_killed_paused_and_restarted_on_its_own_ports(fresh_devcluster):
    cluster = await fresh_devcluster(nodes=scale(default_node_classes(), 2))
    config = StackConfig(services=(Service.EXTENDER,), env={Service.EXTENDER: {"LOG_LEVEL": "debug"}})
    async with JoulieStack(cluster, config) as stack:
        extender = stack.extender
        assert extender.env["LOG_LEVEL"] == "debug"
        first = extender.pid
        extender.kill()
        assert await extender.wait(10) == -9
        assert await extender.reason_not_ready() is not None
        await extender.start()
        await extender.wait_ready()
        assert extender.pid != first
        assert {"joulie-extender": extender.pid}.items() <= {
            record.name: record.pid for record in ClusterState.read(cluster.directory).processes
        }.items()
        extender.pause()
        assert await extender.reason_not_ready() is not None
        extender.resume()
        await extender.wait_ready()
        second = await stack.start(Service.OPERATOR, "joulie-operator-2")
        assert stack.services["joulie-operator-2"] is second
        assert await second.reason_not_ready() is None


async def test_the_error_of_a_service_that_cannot_start_contains_its_log_and_no_process_is_left(fresh_devcluster):
    cluster = await fresh_devcluster()
    stack = JoulieStack(cluster, StackConfig(env={Service.OPERATOR: {"POLICY_TYPE": "guesswork"}}))
    with pytest.raises(Exception, match="guesswork"):
        await stack.up()
    assert stack.services == {}
    assert not any(name.startswith("joulie-") for name in cluster.processes)


async def test_the_api_server_serves_the_custom_resources_after_the_installation(fresh_devcluster):
    cluster = await fresh_devcluster()
    async with await cluster.client() as client:
        with pytest.raises(NotFound):
            await client.list(NODE_TWINS)
        await JoulieStack(cluster).install()
        assert await client.list(NODE_TWINS) == []
