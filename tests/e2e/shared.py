"""One system for several tests, one after another, each with its own settings of the services."""

from collections.abc import Mapping

from tests.e2e.waiting import eventually

from joulie_api.client import KubeClient
from joulie_api.resources import PODS
from joulie_sim.stack.service import Service
from joulie_sim.stack.stack import JoulieStack

_READY_S = 60.0
_PODS_GONE_S = 30.0


class SharedStack:
    """The services of a cluster that several tests use.

    Attributes:
        stack: the services.
    """

    def __init__(self, stack: JoulieStack) -> None:
        self.stack = stack
        self._original: dict[str, dict[str, str]] = {}

    async def run_with(self, settings: Mapping[Service, Mapping[str, str]]) -> None:
        """Have the services of the stack run with some settings and no others, and wait until all are ready.

        A service that runs with these settings already is left alone.

        Raises:
            StartError: a service did not become ready.
        """
        if not self._original:
            await self.stack.up()
            self._original = {name: dict(process.env) for name, process in self.stack.services.items()}
        for name, process in self.stack.services.items():
            env = self._original[name] | dict(settings.get(process.service, {}))
            if process.running and process.env == env:
                continue
            process.env = env
            await process.restart()
        await self.stack.wait_ready(_READY_S)


async def delete_all_pods(client: KubeClient, namespace: str) -> None:
    """Delete the pods of a namespace, and wait until they are gone."""
    await client.request("DELETE", PODS.collection_path(namespace))

    async def gone() -> None:
        left = len(await client.list(PODS, namespace))
        assert not left, f"{left} pods are left in {namespace}"

    await eventually(gone, within_s=_PODS_GONE_S)
