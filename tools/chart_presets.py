"""Writes the chart's table of presets from `joulie_api.presets`."""

import json
import sys
from typing import Final

from tools.generated import ROOT, finish

from joulie_api.presets import PRESETS

_HEAD: Final = """\
{{/* Written by `just schema` from the table in joulie_api.presets: do not edit.
     JSON, by name: the variables of operator and extender, whether nodes sleep, half a sentence. */}}
"""


def text() -> str:
    """Return the template."""
    table = {
        name: {
            "summary": preset.summary,
            "operator": dict(preset.operator),
            "extender": dict(preset.extender),
            "sleeps": preset.sleeps,
        }
        for name, preset in PRESETS.items()
    }
    body = json.dumps(table, indent=2)
    return f'{_HEAD}{{{{- define "joulie.presets" -}}}}\n{body}\n{{{{- end -}}}}\n'


if __name__ == "__main__":
    sys.exit(finish(ROOT / "helm" / "joulie" / "templates" / "_presets.tpl", text(), "just schema"))
