"""`kubectl joulie doctor`: what is wrong, and the way out."""

import asyncio
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from joulie_api.errors import ApiError, NotFound
from joulie_api.resources import CLUSTER_ROLES, NODE_BMCS, NODE_HARDWARES, NODE_TWINS, NODES, PODS, SERVICES
from joulie_cli import VERSION
from joulie_cli.bmc_checks import decode_bmc
from joulie_cli.check_outcome import CheckState
from joulie_cli.checks import Observations, RoleRule, check
from joulie_cli.cluster import ClusterReader, connect
from joulie_cli.commands.status import read_version
from joulie_cli.extender import EXTENDER_SELECTOR
from joulie_cli.outcome import ExitCode
from joulie_cli.output import as_data, print_data, print_lines, terminal_width
from joulie_cli.render.doctor import doctor_lines
from joulie_cli.service_pods import SELECTOR, decode_service_pod
from joulie_cli.views import Raw, decode_marks, decode_namespaced_name
from joulie_core.labels import POWER_PROFILE

_COMPONENT: Final = "app.kubernetes.io/component"
_SCHEDULERS: Final = "component=kube-scheduler"
_FILTER_REQUESTS: Final = b"joulie_scheduler_filter_requests_total"


class _Served(msgspec.Struct):
    name: str = ""


class _Discovery(msgspec.Struct):
    resources: list[_Served] | None = None


class _Rule(msgspec.Struct, rename="camel"):
    api_groups: list[str] | None = None
    resources: list[str] | None = None
    verbs: list[str] | None = None


class _Meta(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Role(msgspec.Struct):
    metadata: _Meta
    rules: list[_Rule] | None = None


class _Container(msgspec.Struct):
    command: list[str] | None = None
    args: list[str] | None = None


class _Spec(msgspec.Struct):
    containers: list[_Container] | None = None


class _Pod(msgspec.Struct):
    spec: _Spec | None = None


_DISCOVERY: Final = msgspec.json.Decoder(_Discovery)
_ROLE: Final = msgspec.json.Decoder(_Role)
_POD: Final = msgspec.json.Decoder(_Pod)


async def run(options: Namespace) -> ExitCode:
    """Print the results of the checks."""
    async with connect(options) as cluster:
        findings = check(await _observe(cluster, options.selector))
    if as_data(options):
        print_data({"checks": [finding.data() for finding in findings]}, options)
    else:
        print_lines(doctor_lines(findings, terminal_width()))
    found = any(finding.state is CheckState.FINDING for finding in findings)
    return ExitCode.FINDINGS if found else ExitCode.OK


async def _observe(cluster: ClusterReader, selector: str) -> Observations:
    kinds, kubernetes = await asyncio.gather(_kinds(cluster), read_version(cluster))
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
        cluster.read_permitted(CLUSTER_ROLES, _role, label_selector=SELECTOR),
        cluster.read_permitted(PODS, _command, "kube-system", label_selector=_SCHEDULERS),
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
        found = _DISCOVERY.decode(await cluster.client.request("GET", path))
    except NotFound:
        return frozenset()
    return frozenset(each.name for each in found.resources or ())


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


def _role(raw: Raw) -> tuple[str, Sequence[RoleRule]]:
    wire = _ROLE.decode(raw)
    rules = [
        RoleRule(tuple(each.api_groups or ()), tuple(each.resources or ()), tuple(each.verbs or ()))
        for each in wire.rules or ()
    ]
    return (wire.metadata.labels or {}).get(_COMPONENT, ""), rules


def _by_component(roles: Sequence[tuple[str, Sequence[RoleRule]]]) -> Mapping[str, Sequence[RoleRule]]:
    found: dict[str, list[RoleRule]] = {}
    for component, rules in roles:
        found.setdefault(component, []).extend(rules)
    return found


def _command(raw: Raw) -> Sequence[str]:
    spec = _POD.decode(raw).spec
    return [
        part
        for container in (spec.containers if spec else None) or ()
        for part in (*(container.command or ()), *(container.args or ()))
    ]
