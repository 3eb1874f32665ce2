"""`kubectl joulie doctor`: what is wrong, and the way out.

The checks are functions of what was read: `doctor_installation` and `doctor_nodes`.
"""

import asyncio
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from joulie_api.errors import ApiError, NotFound
from joulie_api.resources import CLUSTER_ROLES, NODE_BMCS, NODE_HARDWARES, NODE_TWINS, NODES, PODS, SERVICES
from joulie_api.wire.metadata import WireObject
from joulie_cli import VERSION
from joulie_cli.arguments import add_verb, cluster_options, format_option, selector_option
from joulie_cli.cluster import ClusterReader, connect
from joulie_cli.layout import TEXT_WIDTH, Cell, Line, counted, line, some_names, wrapped
from joulie_cli.output import ExitCode, show
from joulie_cli.verbs.doctor_installation import (
    INSTALLATION_CHECKS,
    CheckOutcome,
    CheckState,
    Observations,
    RoleRule,
    check_crds,
)
from joulie_cli.verbs.doctor_nodes import NODE_CHECKS
from joulie_cli.views import decode_namespaced_name, make_decoder
from joulie_cli.views.bmcs import decode_bmc
from joulie_cli.views.nodes import decode_marks
from joulie_cli.views.pods import COMPONENT, EXTENDER_SELECTOR, SELECTOR, decode_command, decode_service_pod
from joulie_core.labels import POWER_PROFILE

_SCHEDULERS: Final = "component=kube-scheduler"
_FILTER_REQUESTS: Final = b"joulie_scheduler_filter_requests_total"
_STYLES: Final = {CheckState.OK: "green", CheckState.FINDING: "red", CheckState.UNCHECKED: "yellow"}
_STATE: Final = max(len(state) for state in CheckState) + 2
_NAME: Final = 11
_INDENT: Final = " " * (_STATE + _NAME)


class _Served(msgspec.Struct):
    name: str = ""


class _Discovery(msgspec.Struct):
    resources: list[_Served] | None = None


class _Rule(msgspec.Struct, rename="camel"):
    api_groups: list[str] | None = None
    resources: list[str] | None = None
    verbs: list[str] | None = None


class _Role(WireObject):
    rules: list[_Rule] | None = None


def _role(wire: _Role) -> tuple[str, Sequence[RoleRule]]:
    rules = [
        RoleRule(tuple(each.api_groups or ()), tuple(each.resources or ()), tuple(each.verbs or ()))
        for each in wire.rules or ()
    ]
    return (wire.metadata.labels or {}).get(COMPONENT, ""), rules


_decode_names: Final = make_decoder(
    _Discovery, "list of kinds", lambda wire: frozenset(each.name for each in wire.resources or ())
)
_decode_role: Final = make_decoder(_Role, "ClusterRole", _role)


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    add_verb(
        verbs,
        "doctor",
        run,
        summary="what is wrong, and the way out",
        description="Checks CRDs, versions, services, roles, kube-scheduler, targets, agents, twins, caps, labels, "
        "BMCs and nodes that sleep; pods on nodes that are off are left out. "
        "What this user may not read is reported as not checked. Exit code 1 if anything was found.",
        example="kubectl joulie doctor\nkubectl joulie doctor -o json | jq '.checks[] | select(.state == \"finding\")'",
        parents=[cluster_options(), format_option(wide=False), selector_option()],
    )


async def run(options: Namespace) -> ExitCode:
    """Print the results of the checks."""
    async with connect(options) as cluster:
        findings = _check(await _observe(cluster, options.selector))
    data = {"checks": [finding.data() for finding in findings]}
    show(options, data, lambda width: _lines(findings, width))
    found = any(finding.state is CheckState.FINDING for finding in findings)
    return ExitCode.FINDINGS if found else ExitCode.OK


async def _observe(cluster: ClusterReader, selector: str) -> Observations:
    kinds, kubernetes = await asyncio.gather(_kinds(cluster), cluster.version())
    seen = Observations(kinds=kinds, kubernetes=kubernetes, own_version=VERSION)
    if NODE_TWINS.plural not in kinds:
        return seen
    rows, labelled, hardware = await asyncio.gather(
        cluster.rows(selector),
        cluster.read(NODES, decode_marks, label_selector=POWER_PROFILE, metadata_only=True),
        cluster.read(NODE_HARDWARES, decode_marks, metadata_only=True),
    )
    pods, roles, schedulers, bmcs, requests = await asyncio.gather(
        cluster.read_permitted(PODS, decode_service_pod, label_selector=SELECTOR),
        cluster.read_permitted(CLUSTER_ROLES, _decode_role, label_selector=SELECTOR),
        cluster.read_permitted(PODS, decode_command, "kube-system", label_selector=_SCHEDULERS),
        cluster.read_permitted(NODE_BMCS, decode_bmc),
        _filter_requests(cluster),
    )
    return Observations(
        kinds=kinds,
        kubernetes=kubernetes,
        own_version=VERSION,
        rows=rows,
        labelled=labelled,
        hardware=frozenset(each.name for each in hardware),
        pods=pods,
        roles=None if roles is None else _by_component(roles),
        schedulers=schedulers,
        bmcs=bmcs,
        filter_requests=requests,
    )


async def _kinds(cluster: ClusterReader) -> frozenset[str]:
    """Return the plural names of the kinds that the API server serves of joulie.io."""
    path = f"/apis/{NODE_TWINS.api_version}"
    try:
        return _decode_names(await cluster.client.request("GET", path))
    except NotFound:
        return frozenset()


async def _filter_requests(cluster: ClusterReader) -> float | None:
    """Return the requests that one extender pod has counted; None where its metrics cannot be read."""
    services = await cluster.read_permitted(SERVICES, decode_namespaced_name, label_selector=EXTENDER_SELECTOR)
    if not services:
        return None
    namespace, name = services[0]
    path = f"{SERVICES.collection_path(namespace)}/http:{name}:metrics/proxy/metrics"
    try:
        text = await cluster.client.request("GET", path)
    except ApiError:
        return None
    return sum(float(line.rpartition(b" ")[2]) for line in text.splitlines() if line.startswith(_FILTER_REQUESTS))


def _by_component(roles: Sequence[tuple[str, Sequence[RoleRule]]]) -> Mapping[str, Sequence[RoleRule]]:
    found: dict[str, list[RoleRule]] = {}
    for component, rules in roles:
        found.setdefault(component, []).extend(rules)
    return found


def _check(seen: Observations) -> list[CheckOutcome]:
    """Return the results of all checks; without the CRDs those of the others would mean nothing."""
    crds = list(check_crds(seen))
    if crds[0].state is CheckState.FINDING:
        return crds
    off = {row.name for row in seen.rows if row.may_be_off}
    if off and seen.pods is not None:
        # Pods of DaemonSets stay bound to a node that is off.
        seen = replace(seen, pods=[pod for pod in seen.pods if pod.node not in off])
    return [finding for each in (*INSTALLATION_CHECKS, *NODE_CHECKS) for finding in each(seen)]


def _lines(findings: Sequence[CheckOutcome], width: int | None) -> list[Line]:
    """Return the results of the checks and their number."""
    lines = [each for finding in findings for each in _finding(finding, width or TEXT_WIDTH)]
    number = sum(finding.state is CheckState.FINDING for finding in findings)
    summary = counted(number, "finding") if number else "nothing found"
    return [*lines, line(), line(summary, "red" if number else "green")]


def _finding(finding: CheckOutcome, width: int) -> list[Line]:
    nodes = f": {counted(len(finding.nodes), 'node')}: {some_names(finding.nodes)}" if finding.nodes else ""
    room = width - len(_INDENT)
    first, *rest = wrapped(f"{finding.text}{nodes}", room)
    lines: list[Line] = [
        (
            Cell(finding.state.ljust(_STATE), _STYLES[finding.state]),
            Cell(finding.check.ljust(_NAME), "bold"),
            Cell(first),
        ),
        *((Cell(_INDENT), Cell(each)) for each in rest),
    ]
    way_out = wrapped(f"-> {finding.way_out}", room) if finding.way_out else []
    return lines + [(Cell(_INDENT), Cell(each, "cyan")) for each in way_out]
