"""`joulie-containers start-hook`: the process that the container runtime asks before it creates a container.

It needs root for the runtime's socket, and no capability, no network beyond its own metrics and no API token. A runtime
or a controller that is not there is no failure of the process: limits are lifted by polling then.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final, NoReturn

from joulie_actuator.server import Admission
from joulie_api import entry
from joulie_api.app import App
from joulie_api.metrics import NodeSeriesCollector
from joulie_containers.nri.connection import NriConnection, NriEndpoint
from joulie_containers.nri.registration import START_EVENTS
from joulie_containers.start_hook.controller import ControllerLink, listening
from joulie_containers.start_hook.metrics import start_hook_families
from joulie_containers.start_hook.plugin import StartHook
from joulie_containers.start_hook.settings import StartHookSettings

SERVICE: Final = "joulie-start-hook"
COMMAND: Final = "joulie-containers start-hook"
SUMMARY: Final = (
    "Lets the agent lift limits of GPUs by class before a container starts, as an NRI plugin of containerd or CRI-O "
    "that changes no container."
)
VERSION: Final = version("joulie-containers")


def main(arguments: Sequence[str], env: Mapping[str, str] | None = None) -> NoReturn:
    """Run until SIGTERM or SIGINT, and exit."""
    entry.main(COMMAND, StartHookSettings, run, version=VERSION, summary=SUMMARY, argv=arguments, env=env)


async def run(settings: StartHookSettings, *, on_start: Callable[[App], None] = lambda _app: None) -> None:
    """Run until terminated; `on_start` gets the application once it listens.

    Raises:
        OSError: the socket for the controller cannot be bound.
    """
    link = ControllerLink(settings.start_deadline)
    hook = StartHook(link, settings.start_deadline)
    endpoint = NriEndpoint(
        name=settings.plugin_name,
        index=settings.plugin_index,
        path=Path(settings.nri_socket),
        events=START_EVENTS,
    )
    connection = NriConnection(hook, endpoint)
    admission = Admission(settings.start_hook_controller_uid, settings.start_hook_controller_gid)
    async with (
        App(settings, service=SERVICE, version=VERSION) as app,
        listening(link, Path(settings.start_hook_socket), admission),
    ):
        app.registry.register(
            NodeSeriesCollector(lambda: start_hook_families(hook, registered=connection.state.registered))
        )
        app.spawn("runtime connection", connection.run())
        on_start(app)
        await app.wait()
