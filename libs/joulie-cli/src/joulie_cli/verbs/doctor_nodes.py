"""The checks of `doctor` of nodes: targets, agents, twins, caps, labels, BMCs and sleep. No I/O.

docs/hardware.md explains the reasons of caps that are not in force.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from joulie_cli.layout import counted
from joulie_cli.verbs.doctor_installation import CheckOutcome, Observations, found, ok, unchecked
from joulie_cli.views.bmcs import BmcView
from joulie_cli.views.pods import ServicePod, health
from joulie_cli.views.rows import STALE_AFTER_S, NodeRow, failed_caps
from joulie_cli.views.sleep import AWAKE, QUARANTINED
from joulie_core.kinds.node_bmc import LEFT_OFF

_SEE_PAGE: Final = "docs/hardware.md explains the reason"
#: The way out for each reason of a cap that is not in force.
CAP_WAYS_OUT: Final[Mapping[str, str]] = {
    "FirmwareLocked": "unlock power limits in the firmware of the node, or set spec.controls.cpu.mode to dvfs in its "
    "TelemetryProfile",
    "HeldByFirmware": "the firmware holds another limit: lower its own cap, or accept the one in enforcedWatts",
    "NotPermitted": "give the actuator its rights: agent.actuator values of the chart (hsmp, nvidia, amd, "
    "seLinuxOptions)",
    "NoInterface": "load the driver (intel_rapl_msr, amd_hsmp, cpufreq) on the node, or use an HTTP backend",
    "NoHostInterface": "use an HTTP backend: spec.controls of the node's TelemetryProfile",
    "NoCapRange": "the range of the hardware is unknown: configure the cap in watts instead of percent",
    "NoDevice": "if the node has the hardware, check its driver; kubectl get nodehardware NODE -o yaml",
    "TurnedOff": "spec.controls of the node's TelemetryProfile turns it off: change its type if that is not intended",
    "HostInPool": "pool agents do not act on their own machine: set an HTTP backend in the TelemetryProfile, or use "
    "the daemonset mode",
    "SimulateOnly": "remove SIMULATE_ONLY from agent.env",
    "NoJournal": "make agent.actuator.hostStatePath writable: originals cannot be recorded",
    "Saturated": "the power is above the cap at full throttle: raise the cap",
    "NoReading": "check the source of readings: spec.sources of the node's TelemetryProfile",
    "OutOfRange": "choose a cap within the range in the NodeHardware of the node",
    "PartlyApplied": "not all CPU packages or GPUs take the cap: see the message with kubectl joulie profile NODE",
    "NotReleased": "an earlier control may still be in force: see the message with kubectl joulie profile NODE",
    "Refused": "the HTTP backend declines: see its log",
    "BackendFailed": "see the log of the backend, or of the agent on that node",
    "DeviceLost": "a device no longer answers: see the kernel's log of the node",
    "IoError": "the kernel failed to read or write the value: see the kernel's log of the node",
    "NotFound": "the HTTP backend does not know the node: check the endpoint in its TelemetryProfile",
    "HttpStatus": "see the log of the HTTP backend",
    "Timeout": "the HTTP backend does not answer in time: check it, or raise timeoutSeconds in the TelemetryProfile",
    "Unreachable": "check the endpoint in the TelemetryProfile, the network and its policies",
    "MalformedReply": "the HTTP backend answers what the agent cannot read: compare it with docs/hardware.md",
    "BadEndpoint": "correct the endpoint in the TelemetryProfile",
    "BadSecret": "check the Secret of headersSecretRef, and agent.headersSecrets of the chart",
}
#: The way out for each reason in the conditions of NodeBMCs.
_BMC_WAYS_OUT: Final = {
    "Unauthorized": "correct the user and password in the Secret of spec.credentialsSecretRef",
    "CredentialsMissing": "create the Secrets that the spec names, and list them in outofband.secrets of the chart",
    "AddressNotApproved": "if it is the BMC's address, add it to the key addresses of the Secret of "
    "spec.credentialsSecretRef; if not, correct spec.address",
    "CertificatesNotApproved": "copy ca.crt into the Secret of spec.credentialsSecretRef, and remove spec.caSecretRef",
    "InvalidAddress": "correct spec.address: a scheme, a host name or an IP address, and maybe a port",
    "MalformedAnswer": "the BMC's answer cannot be decoded: report it to its vendor; a firmware update may help",
    "InternalError": "a defect of the out-of-band service: report it with the traceback in its log",
    "Unreachable": "does its address answer from the service's pod?",
    "CertificateRefused": "correct ca.crt or tls-server-name in the Secret of spec.credentialsSecretRef, as the "
    "condition's message says",
    "TimedOut": "raise the setting that the message of the condition names, if the BMC is slow; one that hangs needs a "
    "reset of its own: ipmitool mc reset cold, or its web page",
    "LimitExceptionPowersOff": "set the exception of the power limit to LogEventOnly at the BMC",
    "LicenceMissing": "the vendor's licence for power limits is missing",
    "NodeNotTainted": "a power-off request was left behind; remove it: kubectl patch nodebmcs NODE --type=merge"
    """ -p '{"spec":{"desiredPower":null}}'""",
    "NodeMissing": "the operator powers it on; leave it off: kubectl patch nodebmcs NODE --type=merge"
    """ -p '{"spec":{"desiredPower":"Off"}}'""",
    "Quarantined": "see console and BMC, then: kubectl joulie wake NODE --clear-quarantine",
    "Maintenance": "kubectl joulie maintenance NODE --end",
    "Cordoned": "kubectl uncordon NODE",
    "ResetTypeMissing": "the BMC offers no such reset; a person may permit a power-off without a graceful shutdown by "
    "spec.forcedOff=Allowed",
    "PowerOffNotAllowed": "set spec.powerOff to Allowed, or remove spec.desiredPower",
}
#: Reasons why the power stays as it is until a person acts.
_UNFOLLOWED: Final = frozenset(
    {"NotFollowed", "NodeNotTainted", "PowerOffNotAllowed", "ResetTypeMissing", "Refused", "Failed"}
)
#: Reasons of the condition of servers that stay off as people want it.
_WANTED_OFF: Final = frozenset({"Maintenance", "Cordoned"})
_SEE_BMC: Final = "kubectl describe nodebmc NODE: the conditions have the message"


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
            CAP_WAYS_OUT.get(each.reason, _SEE_PAGE),
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


def _bmcs(seen: Observations) -> Iterator[CheckOutcome]:
    bmcs = seen.bmcs
    if bmcs is None:
        yield unchecked("BMCs", "this user may not list NodeBMCs")
        return
    if not bmcs:
        return
    problems = [
        *_service(seen.pods),
        *_unanswered(bmcs),
        *_unfollowed(bmcs),
        *_left_off(bmcs),
        *_uncapped(bmcs),
        *_unproven(bmcs),
    ]
    yield from problems
    if not problems:
        measured = sum(each.watts is not None for each in bmcs)
        yield ok("BMCs", f"{len(bmcs)} answer, {measured} of them with the watts of the whole server")


def _service(pods: Sequence[ServicePod] | None) -> Iterator[CheckOutcome]:
    if pods is not None and not health(pods, "outofband").ready:
        way_out = "helm upgrade with outofband.enabled=true; kubectl logs of its pod"
        yield found("BMCs", "there are NodeBMCs, and no ready pod of the out-of-band service", way_out)


def _unanswered(bmcs: Sequence[BmcView]) -> Iterator[CheckOutcome]:
    # Unknown is Wake-on-LAN, which never answers.
    silent = [each for each in bmcs if each.conditions.get("Reachable", ("", ""))[0] in {"", "False"}]
    yield from _by_reason(silent, "Reachable", "no answer, so the power state is unknown")


def _unfollowed(bmcs: Sequence[BmcView]) -> Iterator[CheckOutcome]:
    late = [each for each in bmcs if each.conditions.get("PowerAsDesired", ("", ""))[1] in _UNFOLLOWED]
    yield from _by_reason(late, "PowerAsDesired", "the power does not become what is desired")


def _left_off(bmcs: Sequence[BmcView]) -> Iterator[CheckOutcome]:
    left_off = [each for each in bmcs if each.conditions.get(LEFT_OFF, ("", ""))[0] == "True"]
    wanted = [each for each in left_off if each.conditions[LEFT_OFF][1] in _WANTED_OFF]
    yield from _by_reason(
        [each for each in left_off if each not in wanted], LEFT_OFF, "Joulie switched servers off, and they stay off"
    )
    yield from _by_reason(wanted, LEFT_OFF, "servers stay off until a person ends what keeps them so")


def _uncapped(bmcs: Sequence[BmcView]) -> Iterator[CheckOutcome]:
    capped = [each for each in bmcs if each.has_cap and each.conditions.get("Capped", ("True", ""))[0] != "True"]
    yield from _by_reason(capped, "Capped", "caps of whole servers are not in force")


def _unproven(bmcs: Sequence[BmcView]) -> Iterator[CheckOutcome]:
    names = tuple(each.name for each in bmcs if each.conditions.get("WakeProven", ("", ""))[0] == "False")
    if names:
        way_out = "see the server's console: it was powered on, and the node did not become ready in time"
        yield found("BMCs", "the last boot did not end in time", way_out, names)


def _by_reason(bmcs: Sequence[BmcView], condition: str, problem: str) -> Iterator[CheckOutcome]:
    reasons: dict[str, list[str]] = {}
    for each in bmcs:
        reasons.setdefault(each.conditions.get(condition, ("", "NotReported"))[1], []).append(each.name)
    for reason, names in sorted(reasons.items()):
        yield found("BMCs", f"{problem}: {reason}", _BMC_WAYS_OUT.get(reason, _SEE_BMC), tuple(names))


def _sleep(seen: Observations) -> Iterator[CheckOutcome]:
    quarantined = tuple(row.name for row in seen.rows if row.sleep_state == QUARANTINED)
    others = sum(row.sleep_state not in {AWAKE, QUARANTINED, None} for row in seen.rows)
    if quarantined:
        yield found(
            "sleep",
            "nodes are in quarantine: they were powered on, and did not become ready",
            f"see console and BMC, power on, then: kubectl joulie wake {quarantined[0]} --clear-quarantine",
            quarantined,
        )
    elif others:
        yield ok("sleep", f"{counted(others, 'node')} {'is' if others == 1 else 'are'} not awake, none in quarantine")


NODE_CHECKS: Final[tuple[Callable[[Observations], Iterable[CheckOutcome]], ...]] = (
    _targets,
    _agents,
    _twins,
    _caps,
    _labels,
    _bmcs,
    _sleep,
)
