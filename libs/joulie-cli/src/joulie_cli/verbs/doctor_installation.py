"""The checks of `doctor` of the installation: CRDs, versions, services, roles and kube-scheduler. No I/O."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from joulie_api.permissions import SERVICES, Grant
from joulie_cli.cluster import NO_CRDS_WAY_OUT
from joulie_cli.views.bmcs import BmcView
from joulie_cli.views.nodes import NodeMarks
from joulie_cli.views.pods import COMPONENTS, ServicePod, health
from joulie_cli.views.rows import STALE_AFTER_S, NodeRow

#: What the API server must serve.
KINDS: Final = (
    "nodehardwares",
    "nodepowerprofiles",
    "telemetryprofiles",
    "nodetwins",
    "balloonspolicies",
    "topologyawarepolicies",
    "templatepolicies",
    "adjustments",
    "nodebmcs",
    "nodesleeppolicies",
    "powerdomains",
    "nodepowerbudgets",
    "powerevents",
)
#: The oldest Kubernetes that Joulie runs on.
_OLDEST: Final = (1, 29)
_ALL: Final = "*"


class CheckState(StrEnum):
    """Result of one check."""

    OK = "ok"
    FINDING = "finding"
    #: What is needed could not be read.
    UNCHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """Result of one check; `nodes` are those that it concerns."""

    check: str
    state: CheckState
    text: str
    way_out: str = ""
    nodes: tuple[str, ...] = ()

    def data(self) -> dict[str, Any]:
        """Return the finding for JSON and YAML."""
        return {
            "check": self.check,
            "state": self.state.value,
            "text": self.text,
            "wayOut": self.way_out or None,
            "nodes": list(self.nodes),
        }


def ok(name: str, text: str) -> CheckOutcome:
    """Return that a check found nothing."""
    return CheckOutcome(name, CheckState.OK, text)


def found(name: str, text: str, way_out: str, nodes: tuple[str, ...] = ()) -> CheckOutcome:
    """Return a finding."""
    return CheckOutcome(name, CheckState.FINDING, text, way_out, nodes)


def unchecked(name: str, text: str) -> CheckOutcome:
    """Return that what a check needs could not be read."""
    return CheckOutcome(name, CheckState.UNCHECKED, text)


@dataclass(frozen=True, slots=True)
class RoleRule:
    """One rule of a ClusterRole."""

    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """Observations of `doctor`; None is what this user may not read, or what does not answer."""

    #: Plural names of served kinds of joulie.io.
    kinds: frozenset[str]
    kubernetes: str
    #: Version of this program.
    own_version: str
    rows: Sequence[NodeRow] = ()
    #: Nodes with a profile label, managed or not.
    labelled: Sequence[NodeMarks] = ()
    #: Names of NodeHardware objects.
    hardware: frozenset[str] = frozenset()
    pods: Sequence[ServicePod] | None = None
    #: Rules of the ClusterRoles by component; those of one component together.
    roles: Mapping[str, Sequence[RoleRule]] | None = None
    #: Command lines of kube-scheduler's pods.
    schedulers: Sequence[Sequence[str]] | None = None
    #: NodeBMCs; None where this user may not list them.
    bmcs: Sequence[BmcView] | None = ()
    #: Requests of kube-scheduler that the extender has answered since it started.
    filter_requests: float | None = None


def check_crds(seen: Observations) -> Iterator[CheckOutcome]:
    """Return whether the API server serves all kinds."""
    missing = [kind for kind in KINDS if kind not in seen.kinds]
    if missing:
        yield found("CRDs", f"the API server does not serve {', '.join(missing)}", NO_CRDS_WAY_OUT)
    else:
        yield ok("CRDs", f"all {len(KINDS)} kinds are served")


def _versions(seen: Observations) -> Iterator[CheckOutcome]:
    version = _parse(seen.kubernetes)
    if version is not None and version < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        yield found("versions", f"Kubernetes {seen.kubernetes} is older than {oldest}", "upgrade the cluster")
    if seen.pods is None:
        yield unchecked("versions", "this user may not list pods")
        return
    running = {name: versions for name in COMPONENTS if (versions := health(seen.pods, name).versions)}
    for name, versions in running.items():
        if len(versions) > 1:
            yield found(
                "versions",
                f"pods of the {name} have versions {' and '.join(versions)}",
                "wait for the rollout, or see why it stopped: kubectl rollout status",
            )
    others = {each for versions in running.values() for each in versions if _parse(each) != _parse(seen.own_version)}
    if others:
        yield found(
            "versions",
            f"this program is {seen.own_version}, services are {' and '.join(sorted(others))}",
            "install the version of kubectl-joulie that belongs to the services",
        )
    elif running:
        yield ok("versions", f"{seen.own_version} on Kubernetes {seen.kubernetes}")


def _services(seen: Observations) -> Iterator[CheckOutcome]:
    if seen.pods is None:
        yield unchecked("services", "this user may not list pods")
        return
    if not seen.pods and any(row.age_s is not None and row.age_s < STALE_AFTER_S for row in seen.rows):
        yield unchecked("services", "no service has a pod, but twins are up to date: the services run outside of pods")
        return
    for name in COMPONENTS:
        service = health(seen.pods, name)
        if not service.pods:
            yield found(
                "services", f"there is no pod of the {name}", f"helm status joulie; {name}.enabled must be true"
            )
        elif service.ready < service.pods:
            broken = [f"-n {pod.namespace} {pod.name}" for pod in seen.pods if pod.component == name and not pod.ready]
            yield found(
                "services",
                f"{name}: {service.ready} of {service.pods} pods are ready",
                f"kubectl describe pod {broken[0]}; kubectl logs {broken[0]} --all-containers",
            )
        else:
            yield ok("services", f"{name}: {service.ready} of {service.pods} pods are ready")


def _roles(seen: Observations) -> Iterator[CheckOutcome]:
    if seen.roles is None:
        yield unchecked("roles", "this user may not list ClusterRoles")
        return
    if not seen.roles:
        yield unchecked("roles", "no ClusterRole is labelled app.kubernetes.io/name=joulie")
        return
    for name in COMPONENTS:
        missing = [text for grant in SERVICES[name].cluster for text in _missing(grant, seen.roles.get(name, ()))]
        if missing:
            yield found(
                "roles",
                f"the ClusterRole of the {name} lacks: {'; '.join(missing)}",
                "helm upgrade with the chart of the services' version",
            )
        else:
            yield ok("roles", f"{name}: all permissions are granted")


def _missing(grant: Grant, rules: Sequence[RoleRule]) -> Iterator[str]:
    for resource in grant.names:
        granted = {
            verb
            for rule in rules
            if {grant.group, _ALL} & set(rule.groups) and {resource, _ALL} & set(rule.resources)
            for verb in rule.verbs
        }
        verbs = [] if _ALL in granted else [verb for verb in grant.verbs if verb not in granted]
        if verbs:
            yield f"{','.join(verbs)} {resource}"


def _scheduler(seen: Observations) -> Iterator[CheckOutcome]:
    if seen.filter_requests:
        yield ok("scheduler", f"the extender has answered {seen.filter_requests:.0f} requests of kube-scheduler")
        return
    way_out = "add the extender to its configuration: docs/install.md, Configuration of kube-scheduler"
    if not seen.schedulers:
        yield unchecked("scheduler", "no pod of kube-scheduler can be read, and the extender has no requests to show")
    elif not any(part.startswith("--config") for command in seen.schedulers for part in command):
        yield found("scheduler", "kube-scheduler runs without --config, so without the extender", way_out)
    elif seen.filter_requests is None:
        yield unchecked("scheduler", "kube-scheduler has a --config, which cannot be read from here")
    else:
        yield found(
            "scheduler",
            "no pod was scheduled through the extender since it started",
            f"if pods were created since then, {way_out}",
        )


def _parse(version: str) -> tuple[int, int] | None:
    """Return major and minor of `v1.34.4` or `0.1.0`; None where they cannot be read."""
    parts = version.removeprefix("v").split(".")
    numbers = [part for part in parts[:2] if part.isdecimal()]
    return (int(numbers[0]), int(numbers[1])) if len(numbers) == 2 else None  # noqa: PLR2004 - major and minor


INSTALLATION_CHECKS: Final[tuple[Callable[[Observations], Iterable[CheckOutcome]], ...]] = (
    check_crds,
    _versions,
    _services,
    _roles,
    _scheduler,
)
