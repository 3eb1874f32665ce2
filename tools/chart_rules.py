"""Writes the rules of the chart's roles and admission policies from `joulie_api.permissions`."""

import sys
from collections.abc import Iterable, Iterator
from typing import Final

from tools.generated import ROOT, finish

from joulie_api.permissions import SERVICES, VIEWER, Grant

#: Verbs that admission does not see.
_READ: Final = frozenset({"get", "list", "watch"})
#: Services whose writes an admission policy checks.
_POLICED: Final = frozenset({"operator", "agent", "outofband", "ven"})
#: The core group in YAML.
_CORE: Final = '""'

_HEAD: Final = """\
{{/* Written by `just rbac` from the table in joulie_api.permissions: do not edit.
     Where a rule is limited to named objects, the template takes the list of their names. */}}
"""


def text() -> str:
    """Return the template."""
    return _HEAD + "".join(
        _define(f"rules.{service}.{scope}", map(_rule, grants))
        + (_define(f"writes.{service}.{scope}", _writes(grants)) if service in _POLICED else "")
        for service, permissions in {**SERVICES, "viewer": VIEWER}.items()
        for scope, grants in (
            ("cluster", permissions.cluster),
            ("namespace", permissions.namespace),
            ("resource-manager", permissions.resource_manager),
            ("sleep", permissions.sleep),
            ("savings", permissions.savings),
            ("energy-factors", permissions.energy_factors),
            ("power-domains", permissions.power_domains),
            ("power-budgets", permissions.power_budgets),
            ("holders", permissions.holders),
            ("node-pods", permissions.node_pods),
            ("class-limits", permissions.class_limits),
            ("pod-events", permissions.pod_events),
        )
    )


def _define(name: str, parts: Iterable[str]) -> str:
    body = "".join(parts)
    return f'{{{{- define "joulie.{name}" -}}}}\n{body}{{{{- end -}}}}\n' if body else ""


def _writes(grants: Iterable[Grant]) -> Iterator[str]:
    """Yield the rules of an admission policy: everything that the grants let a service write."""
    for grant in grants:
        if not _READ.issuperset(grant.verbs):
            yield f"- apiGroups: [{grant.group or _CORE}]\n"
            yield "  apiVersions: ['*']\n"
            yield f"  resources: [{', '.join(grant.names)}]\n"
            yield "  operations: [CREATE, UPDATE, DELETE]\n"


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
