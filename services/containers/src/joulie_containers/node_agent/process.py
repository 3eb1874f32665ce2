"""`joulie-containers node-agent`: the process of the node agent, with the watches that it needs."""

import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NoReturn

from joulie_api import entry
from joulie_api.app import App
from joulie_api.client import KubeClient
from joulie_api.reflector import Reflector
from joulie_api.resources import NODE_POWER_PROFILES, NODES
from joulie_api.wire import Versioned, decode_kind, decode_node
from joulie_containers.node_agent.agent import NodeAgent
from joulie_containers.node_agent.consents import PodConsentsWatch
from joulie_containers.node_agent.settings import NodeAgentSettings, PolicyStatusScope
from joulie_core.kinds.base import Profile
from joulie_core.kinds.node_power_profile import NodePowerProfile
from joulie_core.node import Node

SERVICE: Final = "joulie-node-agent"
COMMAND: Final = "joulie-containers node-agent"
SUMMARY: Final = (
    "Gives the resource manager of this node its configuration from custom resources, reports in their status what "
    "became of it, and publishes labels, taints, capacity and Events that it asks for."
)
VERSION: Final = version("joulie-containers")


def main(arguments: Sequence[str], env: Mapping[str, str] | None = None) -> NoReturn:
    """Run until SIGTERM or SIGINT, and exit."""
    entry.main(COMMAND, NodeAgentSettings, run, version=VERSION, summary=SUMMARY, argv=arguments, env=env)


async def run(settings: NodeAgentSettings, *, on_start: Callable[[App], None] = lambda _app: None) -> None:
    """Run the node agent until it is terminated; `on_start` gets the application once it listens."""
    name = settings.node_name
    own = f"metadata.name={name}"
    async with (
        await KubeClient.connect(
            kubeconfig=settings.kubeconfig or None, user_agent=f"joulie-containers/{VERSION}"
        ) as client,
        App(settings, service=SERVICE, version=VERSION) as app,
    ):
        on_start(app)
        nodes = Reflector(client, NODES, decode_node, field_selector=own)
        targets = Reflector(client, NODE_POWER_PROFILES, decode_kind(NodePowerProfile), field_selector=own)

        def profile() -> Profile | None:
            target = targets.store.get(name)
            return None if target is None else target.model.spec.profile

        consents = _consents(settings, client, app)
        agent = NodeAgent(
            client,
            node_name=name,
            config_socket=Path(settings.resource_manager_socket),
            cluster_socket=Path(settings.node_agent_socket),
            node=lambda: nodes.store.get(name),
            profile=profile,
            wall_time=time.time,
            failures=app.failures,
            consents=consents,
            report_success=settings.container_policy_status is PolicyStatusScope.ALL,
        )

        def on_node(_key: str, old: Node | None, new: Node | None) -> None:
            # Not for each heartbeat of the kubelet.
            if old is None or new is None or (old.labels, old.uid) != (new.labels, new.uid):
                agent.wake()

        def on_target(
            _key: str, old: Versioned[NodePowerProfile] | None, new: Versioned[NodePowerProfile] | None
        ) -> None:
            if old is None or new is None or old.model.spec != new.model.spec:
                agent.wake()

        nodes.subscribe(on_node)
        targets.subscribe(on_target)
        watches: tuple[Reflector[Any], ...] = (nodes, targets, *agent.reflectors)
        for reflector in watches:
            app.watch(reflector)
        app.spawn("node agent", agent.run())
        await app.wait()


def _consents(settings: NodeAgentSettings, client: KubeClient, app: App) -> PodConsentsWatch | None:
    """Watch how much longer the pods of the node may run; None where that is not told."""
    if not settings.pod_consents:
        return None
    consents = PodConsentsWatch(
        client,
        settings.node_name,
        default=settings.default_max_slowdown,
        default_is_consent=settings.default_slowdown_is_consent,
    )
    for reflector in consents.reflectors:
        # Not in the readiness of the process: what is not known is not told, and limits nothing.
        app.report(reflector)
        app.spawn(f"watch {reflector.name}", reflector.run())
    return consents
