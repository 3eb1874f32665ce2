"""Resource managers of one host on a fake runtime, without the process around them, and configurations for them."""

import asyncio
import json
from contextlib import asynccontextmanager

from joulie_api.metrics import Registry
from joulie_api.settings import read_settings
from joulie_containers.resource_api.proto import resource_api_pb2 as pb
from joulie_containers.resources.manager import ResourceManager
from joulie_containers.resources.settings import ResourcesSettings
from joulie_testing.agent.host_files import put_host
from joulie_testing.core.machines import MachineShape

#: Everything here takes milliseconds; this is for a machine that is busy with something else.
LONGEST_WAIT_S = 5
SHAPE = MachineShape(packages=2, cores_per_node=4)
GROUP = {"name": "quiet", "namespaces": ["default"], "minCPUs": 2, "maxCPUs": 4, "showContainersInNrt": True}


def document(kind, **spec):
    return json.dumps({"apiVersion": "joulie.io/v1alpha1", "kind": kind, "spec": spec})


def balloons(**spec):
    return document("BalloonsPolicy", **{"reservedResources": {"cpu": "cpuset:0"}, "balloonTypes": [GROUP], **spec})


def template(cpus, **spec):
    return document("TemplatePolicy", availableResources={"cpu": f"cpuset:{cpus}"}, **spec)


class Managers:
    """Starts resource managers of one host."""

    def __init__(self, node, root):
        self.node, self.root = node, root
        put_host(root, SHAPE.topology(), idle_states=())

    def make(self, *, shape=SHAPE, actuator=None, recorder=None, core_actuator=None, **settings):
        env = {
            "NODE_NAME": "n1",
            "HOST_ROOT": str(self.root),
            "STATE_DIR": str(self.root / "state"),
            "NRI_SOCKET": str(self.node.directory / "nri.sock"),
            **settings,
        }
        self.registry = Registry()
        return ResourceManager(
            read_settings(ResourcesSettings, env),
            shape.topology(),
            self.registry,
            actuator=actuator,
            recorder=recorder,
            core_actuator=core_actuator,
        )

    @asynccontextmanager
    async def started(self, policy="balloons", **settings):
        manager = self.make(POLICY=policy, **settings)
        await manager.start()
        running = [manager.connection.run(), manager.updater.run(), manager.reports.run()]
        tasks = [asyncio.create_task(each) for each in running]
        try:
            async with asyncio.timeout(LONGEST_WAIT_S):
                await self.node.runtime.registered()
            yield manager
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def cpus(self):
        return {name: each.linux.resources.cpu.cpus for name, each in self.node.runtime.containers.items()}

    async def until(self, condition):
        async with asyncio.timeout(LONGEST_WAIT_S):
            while not condition():  # noqa: ASYNC110 - conditions are on plain values
                await asyncio.sleep(0.005)


async def set_config(manager, manifest):
    return await manager.set_config(pb.SetConfigRequest(node_name="n1", manifest=manifest))


async def set_adjustments(manager, **documents):
    request = pb.SetAdjustmentsRequest(
        node_name="n1", adjustments={name: json.dumps({"spec": spec}) for name, spec in documents.items()}
    )
    reply = await manager.set_adjustments(request)
    return {name: dict(each.errors) for name, each in reply.errors.items()}
