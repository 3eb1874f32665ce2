"""An operator in the test's process, on the in-process API server, with its times shortened."""

import asyncio

import pytest

from joulie_api.app import App
from joulie_api.settings import read_settings
from joulie_core import labels
from joulie_operator.app import run
from joulie_operator.settings import settings_model
from joulie_sim.stack.permissions import denied
from joulie_testing.api import FakeApiServer, make_node, make_pod

FAST = {
    "METRICS_ADDR": "127.0.0.1:0",
    "PLAN_DEBOUNCE": "20ms",
    "DOWNGRADE_SETTLE": "50ms",
    "TWIN_INTERVAL": "100ms",
    "EVENTS_PER_SECOND": "1000",
    # Renewed often, so that tests see who leads; a slow machine keeps it, and one that is not released ends soon.
    "LEASE_DURATION": "12s",
    "LEASE_RENEW_DEADLINE": "10s",
    "LEASE_RETRY_PERIOD": "100ms",
}
EPYC, XEON, H100 = "AMD EPYC 7763", "Intel Xeon Gold 6230", "NVIDIA H100 80GB HBM3"


@pytest.fixture
def mixed():
    """Four nodes of each of three hardware families."""
    return [
        *(
            make_node(f"gpu-{index}", cpu_model=EPYC, cpu_sockets=2, gpus=8, gpu_model=H100, cpu=256)
            for index in range(4)
        ),
        *(make_node(f"new-{index}", cpu_model=EPYC, cpu_sockets=2, cpu=256) for index in range(4)),
        *(make_node(f"old-{index}", cpu_model=XEON, cpu_sockets=2, cpu=80) for index in range(4)),
    ]


class Operator:
    """One operator, as a task."""

    def __init__(self, settings):
        self.app = App(settings, service="joulie-operator")
        self.task = asyncio.create_task(run(settings, self.app), name="operator")

    async def stop(self):
        """End it in good order, as SIGTERM does: the lease is released."""
        self.app.stop()
        await self.task

    async def kill(self):
        """Break it off in the middle of whatever it does."""
        self.task.cancel()
        await asyncio.wait({self.task})
        # Retrieved, lest the loop complain about it at some later time.
        assert self.task.cancelled() or self.task.exception() is not None or self.app.stopping.is_set()

    async def metrics(self):
        return (await self.app.registry.render()).decode()


class Cluster:
    """What tests read from the API server and put there."""

    def __init__(self, api: FakeApiServer, env):
        self.api = api
        self.env = env
        self._operators = []

    def start(self, **env):
        """Start one more operator; keyword arguments are settings."""
        operator = Operator(read_settings(settings_model(), self.env | env))
        self._operators.append(operator)
        return operator

    async def close(self):
        for operator in self._operators:
            await operator.kill()

    def labels(self, name):
        node = self.api.get("Node", name)
        found = node["metadata"].get("labels", {})
        return found.get(labels.POWER_PROFILE), found.get(labels.DRAINING)

    def target(self, name):
        found = self.api.get("NodePowerProfile", name)
        return None if found is None else found["spec"]

    def twin(self, name):
        found = self.api.get("NodeTwin", name)
        return None if found is None else found.get("status")

    def conditions(self, name):
        """Conditions of a node's target by their type."""
        found = self.api.get("NodePowerProfile", name) or {}
        return {each["type"]: each for each in found.get("status", {}).get("conditions", ())}

    def events(self, name, kind="Node"):
        """Reasons of the events about an object, oldest first."""
        return [event["reason"] for event in self.event_objects(name, kind)]

    def event_objects(self, name, kind="Node"):
        about = {"kind": kind, "name": name}
        found = [event for event in self.api.objects("Event") if about.items() <= event["involvedObject"].items()]
        return sorted(found, key=lambda event: int(event["metadata"]["resourceVersion"]))

    def view(self, name):
        """Profile, draining, class, caps and conditions of a node if all agree, else None."""
        target, twin = self.target(name), self.twin(name)
        if target is None or twin is None:
            return None
        profile, draining = target["profile"], str(target["draining"]).lower()
        if self.labels(name) != (profile, draining):
            return None
        if self.conditions(name).get("Draining", {}).get("status", "").lower() != draining:
            return None
        if twin["schedulableClass"] != {"false": profile, "true": "draining"}[draining]:
            return None
        return f"{profile}-draining" if draining == "true" else profile

    def views(self):
        return {node["metadata"]["name"]: self.view(node["metadata"]["name"]) for node in self.api.objects("Node")}

    def performance(self):
        return {name for name, view in self.views().items() if view == "performance"}

    def settled(self):
        return all(self.views().values())

    async def until(self, condition, timeout_s=30):
        try:
            await self.api.wait_for(condition, timeout_s=timeout_s)
        except TimeoutError:
            pytest.fail(f"did not come true: {self.views()}")

    def place(self, name, node, *, workload_class="performance", **pod):
        self.api.put(make_pod(name, node=node, workload_class=workload_class, **pod))


@pytest.fixture
async def cluster(fake_api, tmp_path):
    found = Cluster(fake_api, FAST | {"KUBECONFIG": str(fake_api.kubeconfig(tmp_path))})
    yield found
    await found.close()
    assert denied("joulie-operator", fake_api.requests) == []
