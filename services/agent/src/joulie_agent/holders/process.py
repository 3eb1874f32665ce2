"""`joulie-agent holders`: the process that asks the kubelet which container has which device.

It needs root for the kubelet's directory, and no capability, no network beyond its own metrics and no API token. A
kubelet that does not answer is no failure of the process: the controller learns the reason.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from importlib.metadata import version
from pathlib import Path
from typing import Final, NoReturn

from joulie_actuator.server import Admission
from joulie_agent.holders.answer import now_socket
from joulie_agent.holders.kubelet import KubeletClient
from joulie_agent.holders.reader import HoldersReader, serving
from joulie_agent.holders.settings import HoldersSettings
from joulie_api import entry
from joulie_api.app import App

SERVICE: Final = "joulie-holders"
COMMAND: Final = "joulie-agent holders"
SUMMARY: Final = "Asks the kubelet of this node which container has which device, for the controller."
VERSION: Final = version("joulie-agent")


def main(arguments: Sequence[str], env: Mapping[str, str] | None = None) -> NoReturn:
    """Run until SIGTERM or SIGINT, and exit."""
    entry.main(COMMAND, HoldersSettings, run, version=VERSION, summary=SUMMARY, argv=arguments, env=env)


async def run(settings: HoldersSettings, *, on_start: Callable[[App], None] = lambda _app: None) -> None:
    """Run until terminated; `on_start` gets the application once it listens.

    Raises:
        OSError: the socket for the controller cannot be bound.
    """
    admission = Admission(settings.holders_controller_uid, settings.holders_controller_gid)
    async with aclosing(KubeletClient(Path(settings.kubelet_socket))) as kubelet:
        reader = HoldersReader(kubelet.list)
        async with (
            App(settings, service=SERVICE, version=VERSION) as app,
            serving(reader.answer, Path(settings.holders_socket), admission),
            serving(reader.answer_now, Path(now_socket(settings.holders_socket)), admission),
        ):
            app.spawn("kubelet", reader.run())
            on_start(app)
            await app.wait()
