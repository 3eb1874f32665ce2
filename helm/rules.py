# ruff: noqa: INP001 - a script beside the chart
"""Writes the rules of the chart's roles from `joulie_api.permissions`; with `--check`, compares them."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from joulie_api.permissions import SERVICES, Grant

RULES: Final = Path(__file__).parent / "joulie" / "templates" / "_rules.tpl"

#: YAML for the group without a name.
_CORE: Final = '""'

_HEAD: Final = """\
{{/* Written by `just rbac` from the table in joulie_api.permissions: do not edit.
     Where a rule is limited to named objects, the template takes the list of their names. */}}
"""


def _text() -> str:
    return _HEAD + "".join(
        f'{{{{- define "joulie.rules.{service}.{scope}" -}}}}\n{"".join(map(_rule, grants))}{{{{- end -}}}}\n'
        for service, permissions in SERVICES.items()
        for scope, grants in (("cluster", permissions.cluster), ("namespace", permissions.namespace))
        if grants
    )


def _rule(grant: Grant) -> str:
    return "".join(f"{line}\n" for line in _lines(grant))


def _lines(grant: Grant) -> Iterator[str]:
    if grant.reason:
        yield f"# {grant.reason}"
    yield f"- apiGroups: [{grant.group or _CORE}]"
    yield f"  resources: [{', '.join(grant.names)}]"
    if grant.by_name:
        yield "  resourceNames: {{ toJson . }}"
    yield f"  verbs: [{', '.join(grant.verbs)}]"


def main() -> int:
    """Write the file, or with --check say whether it is up to date."""
    text = _text()
    if "--check" not in sys.argv[1:]:
        RULES.write_text(text)
        return 0
    if RULES.exists() and RULES.read_text() == text:
        return 0
    sys.stderr.write(f"{RULES.name} is out of date: run `just rbac` and commit what it writes\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
