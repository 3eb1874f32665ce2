"""The checks of `doctor` about BMCs: pure functions from what was read to findings with a way out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from joulie_api.decoding import decode
from joulie_cli.check_outcome import CheckOutcome, found, ok, unchecked
from joulie_cli.service_pods import ServicePod, health
from joulie_cli.views import Raw
from joulie_core.kinds.node_bmc import LEFT_OFF

_CHECK: Final = "BMCs"
_SERVICE: Final = "outofband"
_WAYS_OUT: Final = {
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
_SEE: Final = "kubectl describe nodebmc NODE: the conditions have the message"


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""
    reason: str = ""


class _Status(msgspec.Struct, rename="camel"):
    conditions: list[_Condition] | None = None
    power_watts: float | None = None


class _Meta(msgspec.Struct):
    name: str = ""


class _Spec(msgspec.Struct):
    cap: dict[str, Any] | None = None


class _Bmc(msgspec.Struct):
    metadata: _Meta
    spec: _Spec | None = None
    status: _Status | None = None


@dataclass(frozen=True, slots=True)
class BmcView:
    """What is checked of a NodeBMC; `conditions` are status and reason by type."""

    name: str
    has_cap: bool = False
    watts: float | None = None
    conditions: dict[str, tuple[str, str]] = field(default_factory=dict)


_BMCS: Final = msgspec.json.Decoder(_Bmc)


def decode_bmc(raw: Raw) -> BmcView:
    """Decode a NodeBMC.

    Raises:
        DecodeError: not an object of that shape.
    """
    wire = decode(_BMCS.decode, raw, "NodeBMC")
    status = wire.status or _Status()
    return BmcView(
        name=wire.metadata.name,
        has_cap=wire.spec is not None and wire.spec.cap is not None,
        watts=status.power_watts,
        conditions={each.type: (each.status, each.reason) for each in status.conditions or ()},
    )


def check_bmcs(bmcs: Sequence[BmcView] | None, pods: Sequence[ServicePod] | None) -> Iterator[CheckOutcome]:
    """Return the findings; nothing where there are no NodeBMCs.

    Args:
        bmcs: all NodeBMCs; None where this user may not list them.
        pods: Joulie's pods; None where they may not be listed.
    """
    if bmcs is None:
        yield unchecked(_CHECK, "this user may not list NodeBMCs")
        return
    if not bmcs:
        return
    problems = [
        *_service(pods),
        *_unanswered(bmcs),
        *_unfollowed(bmcs),
        *_left_off(bmcs),
        *_uncapped(bmcs),
        *_unproven(bmcs),
    ]
    yield from problems
    if not problems:
        measured = sum(each.watts is not None for each in bmcs)
        yield ok(_CHECK, f"{len(bmcs)} answer, {measured} of them with the watts of the whole server")


def _service(pods: Sequence[ServicePod] | None) -> Iterator[CheckOutcome]:
    if pods is not None and not health(pods, _SERVICE).ready:
        way_out = "helm upgrade with outofband.enabled=true; kubectl logs of its pod"
        yield found(_CHECK, "there are NodeBMCs, and no ready pod of the out-of-band service", way_out)


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
        yield found(_CHECK, "the last boot did not end in time", way_out, names)


def _by_reason(bmcs: Sequence[BmcView], condition: str, problem: str) -> Iterator[CheckOutcome]:
    reasons: dict[str, list[str]] = {}
    for each in bmcs:
        reasons.setdefault(each.conditions.get(condition, ("", "NotReported"))[1], []).append(each.name)
    for reason, names in sorted(reasons.items()):
        yield found(_CHECK, f"{problem}: {reason}", _WAYS_OUT.get(reason, _SEE), tuple(names))
