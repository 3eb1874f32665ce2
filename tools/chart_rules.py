"""Writes the rules of the chart's roles from `joulie_api.permissions`."""

import sys
from collections.abc import Iterator
from typing import Final

from tools.generated import ROOT, finish

from joulie_api.permissions import SERVICES, Grant

#: The core group in YAML.
_CORE: Final = '""'

_HEAD: Final = """\
{{/* Written by `just rbac` from the table in joulie_api.permissions: do not edit.
     Where a rule is limited to named objects, the template takes the list of their names. */}}
"""


def text() -> str:
    """Return the template."""
    return _HEAD + "".join(
        f'{{{{- define "joulie.rules.{service}.{scope}" -}}}}\n{"".join(map(_rule, grants))}{{{{- end -}}}}\n'
        for service, permissions in SERVICES.items()
        for scope, grants in (
            ("cluster", permissions.cluster),
            ("namespace", permissions.namespace),
            ("resource-manager", permissions.resource_manager),
        )
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


if __name__ == "__main__":
    sys.exit(finish(ROOT / "helm" / "joulie" / "templates" / "_rules.tpl", text(), "just rbac"))
