"""Write docs/settings.md, the reference of every service's environment, from the settings models themselves.

Usage: python docs/reference.py [--check]
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from joulie_agent.actuator import settings as actuator
from joulie_agent.settings import AgentSettings
from joulie_api.settings import Settings, describe
from joulie_extender.settings import ExtenderSettings
from joulie_operator.settings import settings_model
from joulie_sim.server.settings import SimSettings

_PAGE = Path(__file__).with_name("settings.md")

_HEAD = """\
# Settings

Every service reads its settings from the environment, checks all of them at start, and ends with every problem listed
if one is wrong. `joulie-operator --help` and its like print the same tables. Durations are written as in Go: `30s`,
`1m30s`. An empty variable counts as unset.

This page is generated: `just docs`.
"""


def _page() -> str:
    models = {
        "joulie-operator": settings_model(),
        "joulie-agent": AgentSettings,
        "joulie-extender": ExtenderSettings,
        "joulie-sim": SimSettings,
    }
    tables = [line for name, model in models.items() for line in _table(name, model)]
    return "\n".join([_HEAD, *tables, *_actuator_table()])


def _table(service: str, model: type[Settings]) -> Iterator[str]:
    yield f"## {service}\n"
    yield "| variable | default | meaning |"
    yield "|---|---|---|"
    for row in describe(model):
        default = "*required*" if row.required else f"`{row.default}`" if row.default else ""
        meaning = f"{row.doc} ({row.unit})" if row.unit else row.doc
        yield "| " + " | ".join([f"`{row.name}`", default.replace("|", "\\|"), meaning.replace("|", "\\|")]) + " |"
    yield ""


def _actuator_table() -> Iterator[str]:
    """The commands that run as root read their settings without the library behind the others' models."""
    yield "## joulie-agent actuator, restore and doctor\n"
    yield "| variable | default | meaning |"
    yield "|---|---|---|"
    for row in actuator.rows():
        yield f"| `{row.name}` | `{row.default}` | {row.doc} ({row.unit}) |"
    yield ""


def main() -> int:
    """Write the page, or with --check say whether it is up to date."""
    text = _page()
    if "--check" not in sys.argv[1:]:
        _PAGE.write_text(text)
        return 0
    if _PAGE.exists() and _PAGE.read_text() == text:
        return 0
    print(f"{_PAGE.name} is out of date: run `just docs` and commit what it writes", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
