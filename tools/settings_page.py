"""Writes docs/settings.md, the reference of every service's environment variables, from the settings models."""

import sys
from collections.abc import Iterable, Iterator
from typing import Final

from tools.generated import ROOT, cell, finish

from joulie_actuator import settings as actuator
from joulie_agent.holders.settings import HoldersSettings
from joulie_agent.settings import AgentSettings
from joulie_api.settings import describe
from joulie_containers.node_agent.settings import NodeAgentSettings
from joulie_containers.resources.settings import ResourcesSettings
from joulie_containers.start_hook.settings import StartHookSettings
from joulie_extender.settings import ExtenderSettings
from joulie_operator.settings import settings_model
from joulie_outofband.settings import OutOfBandSettings
from joulie_sim.server.settings import SimSettings
from joulie_ven.settings import VenSettings

_HEAD: Final = """\
# Settings

Services read their settings from environment variables when they start, and exit with a list of all errors if one is
invalid. `joulie-operator --help` and its like print the same tables. `joulie-containers manager` takes each setting as
an option too: CONFIG_FILE is `--config-file`. Durations are written as in Go: `30s`, `1m30s`. An empty variable counts
as unset.

This page is generated: `just docs`.
"""


def page() -> str:
    """Return the page."""
    models = {
        "joulie-operator": settings_model(),
        "joulie-agent": AgentSettings,
        "joulie-agent holders": HoldersSettings,
        "joulie-containers manager": ResourcesSettings,
        "joulie-containers node-agent": NodeAgentSettings,
        "joulie-containers start-hook": StartHookSettings,
        "joulie-extender": ExtenderSettings,
        "joulie-outofband": OutOfBandSettings,
        "joulie-ven": VenSettings,
        "joulie-sim": SimSettings,
    }
    lines = [_HEAD]
    for service, model in models.items():
        rows = describe(model)
        lines += _table(service, ((row.name, row.default, row.required, row.doc, row.unit) for row in rows))
    rows_of_actuator = ((row.name, row.default, False, row.doc, row.unit) for row in actuator.rows())
    lines += _table("joulie-agent or joulie-containers: actuator, restore and doctor", rows_of_actuator)
    return "\n".join(lines)


def _table(title: str, rows: Iterable[tuple[str, str, bool, str, str]]) -> Iterator[str]:
    yield f"## {title}\n"
    yield "| variable | default | meaning |"
    yield "|---|---|---|"
    for name, default, required, doc, unit in rows:
        shown = "*required*" if required else f"`{default}`" if default else ""
        yield f"| `{name}` | {cell(shown)} | {cell(f'{doc} ({unit})' if unit else doc)} |"
    yield ""


if __name__ == "__main__":
    sys.exit(finish(ROOT / "docs" / "settings.md", page(), "just docs"))
