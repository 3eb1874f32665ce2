"""The checks of `doctor`: pure functions from what was observed to findings with a way out."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from joulie_api.permissions import SERVICES, Grant
from joulie_cli.bmc_checks import BmcView, check_bmcs
from joulie_cli.cap_advice import cap_advice
from joulie_cli.check_outcome import CheckOutcome, CheckState, found, ok, unchecked
from joulie_cli.failures import NO_CRDS_WAY_OUT
from joulie_cli.node_rows import STALE_AFTER_S, NodeRow
from joulie_cli.overview import failed_caps
from joulie_cli.service_pods import COMPONENTS, ServicePod, health
from joulie_cli.sleep_checks import check_sleep
from joulie_cli.views import NodeMarks

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
)
#: The oldest Kubernetes that Joulie runs on.
_OLDEST: Final = (1, 29)
_ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class RoleRule:
    """One rule of a ClusterRole."""

    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """What `doctor` has read; None is what this user may not read, or what does not answer."""

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


def check(seen: Observations) -> list[CheckOutcome]:
    """Return the results of all checks; without the CRDs those of the others would mean nothing."""
    crds = list(_crds(seen))
    if crds[0].state is CheckState.FINDING:
        return crds
    off = {row.name for row in seen.rows if row.may_be_off}
    if off and seen.pods is not None:
        # Pods of DaemonSets stay bound to a node that is off.
        seen = replace(seen, pods=[pod for pod in seen.pods if pod.node not in off])
    return [finding for each in _CHECKS for finding in each(seen)]


def _crds(seen: Observations) -> Iterator[CheckOutcome]:
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


def _targets(seen: Observations) -> Iterator[CheckOutcome]:
    managed = [row for row in seen.rows if row.marks is not None]
    if not managed:
        yield found("nodes", "no node is managed", "kubectl label node NODE joulie.io/managed=true")
        return
    without = tuple(row.name for row in managed if row.target is None)
    if without:
        yield found(
            "targets",
            "managed nodes have no NodePowerProfile",
            "does the operator run, and is its NODE_SELECTOR this one?",
            without,
        )
    left = tuple(row.name for row in seen.rows if row.marks is None and row.target is not None)
    if left:
        yield found(
            "targets",
            "NodePowerProfiles exist for nodes that are not managed",
            "the operator deletes them when it runs",
            left,
        )
    if not without and not left:
        yield ok("targets", f"{len(managed)} managed nodes have a target")


def _twins(seen: Observations) -> Iterator[CheckOutcome]:
    stale = tuple(row.name for row in seen.rows if row.target is not None and row.stale)
    if stale:
        yield found(
            "twins",
            f"twins are missing or older than {STALE_AFTER_S:.0f} s: their nodes get a neutral score",
            "see the log of the operator; a clock that is wrong has the same effect",
            stale,
        )
    elif seen.rows:
        yield ok("twins", "all twins are fresh")


def _agents(seen: Observations) -> Iterator[CheckOutcome]:
    managed = [row.name for row in seen.rows if row.marks is not None and not row.may_be_off]
    silent = tuple(name for name in managed if name not in seen.hardware)
    if silent:
        yield found(
            "agents",
            "no agent has reported the hardware of managed nodes",
            "does an agent's pod run there? kubectl get pods -A -l app.kubernetes.io/component=agent -o wide",
            silent,
        )
    agents = [pod for pod in seen.pods or () if pod.component == "agent"]
    if any(pod.owner == "DaemonSet" for pod in agents):
        served = {pod.node for pod in agents if pod.ready}
        absent = tuple(name for name in managed if name not in served)
        if absent:
            yield found(
                "agents",
                "managed nodes have no ready pod of the agent",
                "do its node selector and tolerations fit? kubectl describe daemonset",
                absent,
            )
            return
    if not silent and managed:
        yield ok("agents", f"{len(managed)} managed nodes have reported")


def _caps(seen: Observations) -> Iterator[CheckOutcome]:
    failed = failed_caps(seen.rows)
    for each in failed:
        yield found(
            "caps",
            f"{each.subsystem} caps: {each.result}, {each.reason or 'no reason'}",
            cap_advice(each.reason),
            each.nodes,
        )
    if not failed and seen.rows:
        yield ok("caps", "none is blocked or failed")


def _labels(seen: Observations) -> Iterator[CheckOutcome]:
    planned = [row for row in seen.rows if row.marks is not None and row.target is not None]
    wrong = tuple(
        row.name
        for row in planned
        if row.marks and (row.marks.profile, row.marks.draining) != (row.profile, bool(row.draining))
    )
    if wrong:
        yield found(
            "labels",
            "labels of nodes contradict their NodePowerProfile",
            "the operator corrects them at its next plan: does it run, and does another program set them?",
            wrong,
        )
    known = {row.name for row in seen.rows if row.target is not None}
    left = tuple(sorted(each.name for each in seen.labelled if each.name not in known))
    if left:
        yield found(
            "labels",
            "nodes without a target have the label joulie.io/power-profile",
            f"kubectl label node {left[0]} joulie.io/power-profile- joulie.io/draining-",
            left,
        )
    other = tuple(
        row.name for row in planned if not row.stale and row.schedulable_class not in {_class(row), "unknown"}
    )
    if other:
        yield found(
            "labels",
            "classes in twins contradict the NodePowerProfile",
            "wait for the operator's next refresh; if it stays, see the operator's log",
            other,
        )
    if not (wrong or left or other) and planned:
        yield ok("labels", "labels, targets and twins agree")


def _class(row: NodeRow) -> str | None:
    return "draining" if row.draining else row.profile


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


def _bmcs(seen: Observations) -> Iterator[CheckOutcome]:
    return check_bmcs(seen.bmcs, seen.pods)


def _sleep(seen: Observations) -> Iterator[CheckOutcome]:
    return check_sleep(seen.rows)


_CHECKS: Final[tuple[Callable[[Observations], Iterable[CheckOutcome]], ...]] = (
    _crds,
    _versions,
    _services,
    _roles,
    _scheduler,
    _targets,
    _agents,
    _twins,
    _caps,
    _labels,
    _bmcs,
    _sleep,
)


def _parse(version: str) -> tuple[int, int] | None:
    """Return major and minor of `v1.34.4` or `0.1.0`; None where they cannot be read."""
    parts = version.removeprefix("v").split(".")
    numbers = [part for part in parts[:2] if part.isdecimal()]
    return (int(numbers[0]), int(numbers[1])) if len(numbers) == 2 else None  # noqa: PLR2004 - major and minor
