"""What the token of each of the chart's accounts may write, as requests with the answer that is expected.

The only source: `docs/security.md` has the table of these statements, which `test_security_page.py` compares, and
`test_token_rights.py` sends each of the requests to a real API server. All are dry runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from tests.chart import NAMESPACE

from joulie_api.resources import (
    BALLOONS_POLICIES,
    EVENTS,
    LEASES,
    NODE_BMCS,
    NODE_HARDWARES,
    NODE_POWER_BUDGETS,
    NODE_POWER_PROFILES,
    NODE_RESOURCE_TOPOLOGIES,
    NODE_TWINS,
    NODES,
    PODS,
    POWER_DOMAINS,
    POWER_EVENTS,
    SECRETS,
    TELEMETRY_PROFILES,
    Resource,
)

OWN, OTHER, UNMANAGED = "epyc-0", "epyc-1", "other-0"
#: NodeBMCs of nodes that may be powered off; that of UNMANAGED may not.
MAY_SLEEP: Final = (OWN, OTHER)
MERGE: Final = "application/merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
_MANY: Final = "x" * 200_000


class Token(Enum):
    """Whose token it is, as the page names it."""

    OPERATOR = "operator"
    AGENT = "agent"
    POOL = "pool agent"
    EXTENDER = "extender"
    OUT_OF_BAND = "out-of-band service"
    VEN = "VEN"
    RESTORE = "hooks of `helm uninstall`"


#: Permitted, and refused by the role of the account.
PERMITTED: Final = "permitted"
ROLE: Final = "refused by its role"
#: Refused by a policy of the chart, by the policy's name in the releases of the tests.
OPERATOR, AGENT, OUT_OF_BAND = "joulie-operator", "joulie-agent", "joulie-outofband"
POOL, POOL_NODES = "pool-joulie-agent", "pool-joulie-agent-nodes"
RESTORE, VEN = "joulie-restore", "joulie-ven"
#: PowerEvents: one that the VEN wrote, and two of people, of which one has a name as the VEN's.
VEN_EVENT, PERSONS_EVENT, NAMED_AS_VENS = "openadr-1", "call-1", "openadr-2"
#: The PowerDomain of the VEN.
SITE = "site"


@dataclass(frozen=True, slots=True)
class Statement:
    """One request of one token."""

    token: Token
    #: What is attempted, as the page has it.
    attempt: str
    answer: str
    method: str
    path: str
    body: Mapping[str, Any] | None = None
    content_type: str = "application/json"
    #: A part of the message of a policy: the field and its value.
    says: str = ""

    @property
    def row(self) -> str:
        """The row of the page's table."""
        answer = self.answer if self.answer in {PERMITTED, ROLE} else f"refused by the policy `{self.answer}`"
        return f"| {self.token.value} | {self.attempt} | {answer} |"


def _object(res: Resource, name: str, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": res.api_version, "kind": res.kind, "metadata": metadata, **fields}


def _patch(  # noqa: PLR0917 - a row of the table
    token: Token, attempt: str, answer: str, res: Resource, name: str, body: Mapping[str, Any], **more: Any
) -> Statement:
    path = res.object_path(name, more.pop("namespace", None), more.pop("subresource", None))
    return Statement(token, attempt, answer, "PATCH", path, body, MERGE, **more)


def _apply(token: Token, attempt: str, answer: str, res: Resource, body: Mapping[str, Any], **more: Any) -> Statement:
    path = res.object_path(body["metadata"]["name"], None, more.pop("subresource", None))
    return Statement(token, attempt, answer, "PATCH", path, body, APPLY, **more)


def _owner(kind: str, name: str) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": kind, "name": name, "uid": "00000000-0000-0000-0000-000000000000"}
    return {"ownerReferences": [owner]}


def _hardware(node: str, **metadata: Any) -> dict[str, Any]:
    return _object(NODE_HARDWARES, node, metadata=metadata, spec={"nodeName": node})


def _topology(node: str) -> dict[str, Any]:
    return _object(NODE_RESOURCE_TOPOLOGIES, node, zones=[])


def _eviction(namespace: str, **fields: Any) -> dict[str, Any]:
    metadata = {"name": "web", "namespace": namespace}
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, **fields}


def _condition(kind: str) -> dict[str, Any]:
    condition = {"type": kind, "status": "False", "reason": "Test", "message": "test"}
    return {"conditions": [condition | {"lastTransitionTime": "2030-01-31T12:00:00Z"}]}


def _operator() -> tuple[Statement, ...]:
    token, orphan = Token.OPERATOR, {"metadata": _owner("ConfigMap", "absent")}
    bmc, own_pods = NODE_BMCS, PODS.object_path("web", "default", "eviction")
    system_pods = PODS.object_path("web", "kube-system", "eviction")
    return (
        _patch(
            token,
            "set the label `joulie.io/power-profile` of a Node",
            PERMITTED,
            NODES,
            OWN,
            {"metadata": {"labels": {"joulie.io/power-profile": "eco"}}},
        ),
        _patch(
            token,
            "set another label of a Node",
            OPERATOR,
            NODES,
            OWN,
            {"metadata": {"labels": {"joulie.io/managed": "false"}}},
            says="metadata.labels.joulie.io/managed=false",
        ),
        _patch(
            token,
            "set the annotation `joulie.io/sleep-record` of a Node",
            PERMITTED,
            NODES,
            OWN,
            {"metadata": {"annotations": {"joulie.io/sleep-record": "{}"}}},
        ),
        _patch(
            token,
            "set another annotation of a Node",
            OPERATOR,
            NODES,
            OWN,
            {"metadata": {"annotations": {"a": "b"}}},
            says="metadata.annotations.a=b",
        ),
        _patch(
            token,
            "add the taint `joulie.io/asleep:NoSchedule` to a Node",
            PERMITTED,
            NODES,
            OWN,
            {"spec": {"taints": [{"key": "joulie.io/asleep", "effect": "NoSchedule"}]}},
        ),
        _patch(
            token,
            "add that taint with the effect `NoExecute`",
            OPERATOR,
            NODES,
            OWN,
            {"spec": {"taints": [{"key": "joulie.io/asleep", "effect": "NoExecute"}]}},
            says="spec.taints=[joulie.io/asleep:NoExecute]",
        ),
        _patch(
            token,
            "add another taint to a Node",
            OPERATOR,
            NODES,
            OWN,
            {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
            says="spec.taints=[a:NoSchedule]",
        ),
        _patch(
            token,
            "cordon a Node (`spec.unschedulable`)",
            OPERATOR,
            NODES,
            OWN,
            {"spec": {"unschedulable": True}},
            says="spec.unschedulable",
        ),
        _patch(
            token,
            "give a Node an owner",
            OPERATOR,
            NODES,
            OWN,
            orphan,
            says="metadata.ownerReferences=[ConfigMap absent]",
        ),
        _patch(
            token,
            "give a Node an owner through its status",
            OPERATOR,
            NODES,
            OWN,
            orphan,
            subresource="status",
            says="metadata.ownerReferences=[ConfigMap absent]",
        ),
        _patch(
            token,
            "add a finalizer to a Node",
            OPERATOR,
            NODES,
            OWN,
            {"metadata": {"finalizers": ["example.com/a"]}},
            says="metadata.finalizers=[example.com/a]",
        ),
        _apply(
            token,
            "set the condition `joulie.io/Asleep` of a Node",
            PERMITTED,
            NODES,
            _object(NODES, OWN, status=_condition("joulie.io/Asleep")),
            subresource="status",
        ),
        _patch(
            token,
            "set another condition of a Node",
            OPERATOR,
            NODES,
            OWN,
            {"status": _condition("Ready")},
            subresource="status",
            says="status.conditions",
        ),
        _patch(
            token,
            "change the addresses of a Node",
            OPERATOR,
            NODES,
            OWN,
            {"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}},
            subresource="status",
            says="status.addresses",
        ),
        Statement(token, "delete a Node", ROLE, "DELETE", NODES.object_path(OWN)),
        _patch(
            token,
            'set `spec.desiredPower: "Off"` of a NodeBMC with `powerOff: Allowed`',
            PERMITTED,
            bmc,
            OWN,
            {
                "spec": {"desiredPower": "Off"},
                "metadata": {
                    "annotations": {"joulie.io/requested-power": "Off", "joulie.io/switched-off": '{"at":""}'}
                },
            },
        ),
        _patch(
            token,
            "set it with `powerOff: Never`",
            OPERATOR,
            bmc,
            UNMANAGED,
            {"spec": {"desiredPower": "Off"}},
            says="spec.desiredPower=Off, since spec.powerOff=Never",
        ),
        _patch(
            token,
            "set another annotation of a NodeBMC",
            OPERATOR,
            bmc,
            OWN,
            {"metadata": {"annotations": {"example.com/a": "b"}}},
            says="metadata.annotations.example.com/a=b",
        ),
        _apply(
            token,
            "set the condition `LeftOff` of a NodeBMC",
            PERMITTED,
            bmc,
            _object(bmc, OWN, status=_condition("LeftOff")),
            subresource="status",
        ),
        _patch(
            token,
            "set another condition of a NodeBMC",
            OPERATOR,
            bmc,
            OWN,
            {"status": _condition("Reachable")},
            subresource="status",
            says="status.conditions",
        ),
        _patch(
            token,
            "change the power state in the status of a NodeBMC",
            OPERATOR,
            bmc,
            OWN,
            {"status": {"powerState": "Off"}},
            subresource="status",
            says="status.powerState=Off",
        ),
        _patch(
            token,
            'set `spec.desiredPower: "On"` with `powerOff: Never`',
            PERMITTED,
            bmc,
            UNMANAGED,
            {"spec": {"desiredPower": "On"}},
        ),
        _patch(
            token,
            "turn `powerOff: Never` into `Allowed`",
            OPERATOR,
            bmc,
            UNMANAGED,
            {"spec": {"powerOff": "Allowed"}},
            says="spec.powerOff=Allowed",
        ),
        _patch(
            token,
            "change `spec.address` of a NodeBMC",
            OPERATOR,
            bmc,
            OWN,
            {"spec": {"address": "https://192.0.2.1"}},
            says="spec.address=https://192.0.2.1",
        ),
        _patch(
            token,
            "remove `spec.caSecretRef` of a NodeBMC",
            OPERATOR,
            bmc,
            OWN,
            {"spec": {"caSecretRef": None}},
            says="spec.caSecretRef (removed)",
        ),
        _patch(
            token,
            "give a NodeBMC an owner",
            OPERATOR,
            bmc,
            OWN,
            orphan,
            says="metadata.ownerReferences=[ConfigMap absent]",
        ),
        Statement(
            token,
            "evict a pod in another namespace than `kube-system`",
            PERMITTED,
            "POST",
            own_pods,
            _eviction("default"),
        ),
        Statement(
            token,
            "evict it without time to end (`deleteOptions`)",
            OPERATOR,
            "POST",
            own_pods,
            _eviction("default", deleteOptions={"gracePeriodSeconds": 0}),
            says="without deleteOptions",
        ),
        Statement(
            token,
            "evict a pod in `kube-system`",
            OPERATOR,
            "POST",
            system_pods,
            _eviction("kube-system"),
            says="in namespace kube-system",
        ),
        Statement(token, "delete a pod", ROLE, "DELETE", PODS.object_path("web", "default")),
        _apply(
            token,
            "write a NodePowerProfile, owned by its Node",
            PERMITTED,
            NODE_POWER_PROFILES,
            _object(
                NODE_POWER_PROFILES, OWN, metadata=_owner("Node", OWN), spec={"nodeName": OWN, "profile": "performance"}
            ),
        ),
        _apply(
            token,
            "write a NodeTwin with the Node of another name as its owner",
            OPERATOR,
            NODE_TWINS,
            _object(NODE_TWINS, OWN, metadata=_owner("Node", OTHER), spec={"nodeName": OWN}),
            says=f"metadata.ownerReferences=[Node {OTHER}]",
        ),
        Statement(
            token,
            "write another Lease than its own",
            OPERATOR,
            "POST",
            LEASES.collection_path(NAMESPACE),
            _object(LEASES, "joulie-outofband", spec={}),
            says="its own Lease is joulie-operator",
        ),
        _patch(token, "write a NodeHardware", ROLE, NODE_HARDWARES, OWN, {}),
        Statement(token, "read a Secret", ROLE, "GET", SECRETS.object_path("bmc", NAMESPACE)),
    )


def _agent() -> tuple[Statement, ...]:
    token, named = Token.AGENT, NODE_HARDWARES.object_path(OWN)
    return (
        _apply(token, "write the NodeHardware of its own node", PERMITTED, NODE_HARDWARES, _hardware(OWN)),
        _apply(token, "write that of another node", AGENT, NODE_HARDWARES, _hardware(OTHER), says=OTHER),
        Statement(
            token,
            "create it by `POST` with the own node in the path",
            AGENT,
            "POST",
            named,
            _hardware(OTHER),
            says=f"may not create nodehardwares {OTHER}",
        ),
        Statement(
            token,
            "create it by `POST` to the collection",
            AGENT,
            "POST",
            NODE_HARDWARES.collection_path(),
            _hardware(OTHER),
            says=f"may not create nodehardwares {OTHER}",
        ),
        Statement(
            token,
            "create a TelemetryProfile with `generateName`",
            AGENT,
            "POST",
            TELEMETRY_PROFILES.collection_path(),
            {
                "apiVersion": TELEMETRY_PROFILES.api_version,
                "kind": TELEMETRY_PROFILES.kind,
                "metadata": {"generateName": f"{OWN}-"},
                "spec": {"target": {"scope": "node", "nodeName": OWN}},
            },
            says=f"may not create telemetryprofiles {OWN}-",
        ),
        Statement(
            token,
            "delete the TelemetryProfile of another node",
            AGENT,
            "DELETE",
            TELEMETRY_PROFILES.object_path(OTHER),
            says=f"may not delete telemetryprofiles {OTHER}",
        ),
        Statement(token, "delete all NodeHardwares", ROLE, "DELETE", NODE_HARDWARES.collection_path()),
        _patch(
            token,
            "write the status of another node's TelemetryProfile",
            AGENT,
            TELEMETRY_PROFILES,
            OTHER,
            {"status": {}, "metadata": {"annotations": {"a": "b"}}},
            subresource="status",
            says=f"telemetryprofiles/status {OTHER}",
        ),
        _patch(
            token,
            "write the status of the NodePowerBudget of its own node",
            PERMITTED,
            NODE_POWER_BUDGETS,
            OWN,
            {"status": {"renewal": 1}},
            subresource="status",
        ),
        _patch(
            token,
            "write that of another node's",
            AGENT,
            NODE_POWER_BUDGETS,
            OTHER,
            {"status": {"renewal": 1}},
            subresource="status",
            says=f"nodepowerbudgets/status {OTHER}",
        ),
        _patch(token, "change the limit that is asked of its own node", ROLE, NODE_POWER_BUDGETS, OWN, {}),
        _apply(
            token,
            "add a finalizer to its NodeHardware",
            AGENT,
            NODE_HARDWARES,
            _hardware(OWN, finalizers=["example.com/a"]),
            says="metadata.finalizers=[example.com/a]",
        ),
        _apply(
            token,
            "give its NodeHardware an owner that is not its Node",
            AGENT,
            NODE_HARDWARES,
            _hardware(OWN, **_owner("ConfigMap", "absent")),
            says="metadata.ownerReferences=[ConfigMap absent]",
        ),
        _apply(
            token,
            "store annotations of 200,000 characters",
            AGENT,
            NODE_HARDWARES,
            _hardware(OWN, annotations={"a": _MANY}),
            says="characters in metadata.labels and metadata.annotations",
        ),
        _patch(
            token,
            "give a user's TelemetryProfile of its node an owner",
            AGENT,
            TELEMETRY_PROFILES,
            OWN,
            {"metadata": _owner("Node", OWN)},
            says="only while the agent manages it",
        ),
        _patch(token, "write a NodePowerProfile", ROLE, NODE_POWER_PROFILES, OWN, {}),
        Statement(token, "list pods", ROLE, "GET", PODS.collection_path()),
        Statement(
            token,
            "read a Secret that `agent.headersSecrets` does not name",
            ROLE,
            "GET",
            SECRETS.object_path("bmc", NAMESPACE),
        ),
    )


def _resource_manager() -> tuple[Statement, ...]:
    token, event = Token.AGENT, EVENTS.collection_path("default")
    with_manager = "with the resource manager: "

    def node(attempt: str, answer: str, body: Mapping[str, Any], name: str = OWN, **more: Any) -> Statement:
        return _patch(token, with_manager + attempt, answer, NODES, name, body, **more)

    def status(attempt: str, answer: str, fields: Mapping[str, Any], says: str = "") -> Statement:
        return node(attempt, answer, {"status": fields}, subresource="status", says=says)

    def about(kind: str, host: str) -> dict[str, Any]:
        subject = {"kind": kind, "name": "web", "namespace": "default"}
        return _object(EVENTS, "a", metadata={"namespace": "default"}, involvedObject=subject, source={"host": host})

    return (
        node("set a label of its own Node", PERMITTED, {"metadata": {"labels": {"example.com/a": "b"}}}),
        node("set a label of another Node", AGENT, {"metadata": {"labels": {"a": "b"}}}, OTHER, says=f"nodes {OTHER}"),
        node(
            "set a label with `node-restriction.kubernetes.io/`",
            AGENT,
            {"metadata": {"labels": {"a.node-restriction.kubernetes.io/b": "c"}}},
            says="metadata.labels.a.node-restriction.kubernetes.io/b=c",
        ),
        node(
            "set it through the status",
            AGENT,
            {"metadata": {"labels": {"a.node-restriction.kubernetes.io/b": "c"}}},
            subresource="status",
            says="metadata.labels.a.node-restriction.kubernetes.io/b=c",
        ),
        node(
            "give its own Node an owner",
            AGENT,
            {"metadata": _owner("ConfigMap", "absent")},
            says="metadata.ownerReferences=[ConfigMap absent]",
        ),
        node(
            "add a finalizer to it",
            AGENT,
            {"metadata": {"finalizers": ["example.com/a"]}},
            says="metadata.finalizers=[example.com/a]",
        ),
        node("cordon it", AGENT, {"spec": {"unschedulable": True}}, says="spec.unschedulable"),
        status("set the capacity of an extended resource", PERMITTED, {"capacity": {"example.com/slots": "3"}}),
        status("change its CPUs", AGENT, {"capacity": {"cpu": "1"}}, "status.capacity.cpu=1"),
        status(
            "change its allocatable memory", AGENT, {"allocatable": {"memory": "1Gi"}}, "status.allocatable.memory=1Gi"
        ),
        status("change its number of pods", AGENT, {"capacity": {"pods": "1"}}, "status.capacity.pods=1"),
        status(
            "change `volumesAttached`",
            AGENT,
            {"volumesAttached": [{"name": "a", "devicePath": "b"}]},
            "status.volumesAttached",
        ),
        status(
            "change its addresses",
            AGENT,
            {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]},
            "status.addresses",
        ),
        status("change its conditions", AGENT, _condition("Ready"), "status.conditions"),
        Statement(
            token,
            with_manager + "write the NodeResourceTopology of its own node",
            PERMITTED,
            "POST",
            NODE_RESOURCE_TOPOLOGIES.collection_path(),
            _topology(OWN),
        ),
        Statement(
            token,
            with_manager + "create that of another node with the own one in the path",
            AGENT,
            "POST",
            NODE_RESOURCE_TOPOLOGIES.object_path(OWN),
            _topology(OTHER),
            says=f"may not create noderesourcetopologies {OTHER}",
        ),
        _patch(
            token,
            with_manager + "write its entry in the status of a container policy",
            PERMITTED,
            BALLOONS_POLICIES,
            "default",
            {"status": {"nodes": {OWN: {"status": "Success", "generation": 1}}}},
            subresource="status",
        ),
        _patch(
            token,
            with_manager + "write the entry of another node",
            AGENT,
            BALLOONS_POLICIES,
            "default",
            {"status": {"nodes": {OTHER: {"status": "Success", "generation": 1}}}},
            subresource="status",
            says="but for the entry of its own node",
        ),
        Statement(token, with_manager + "report an Event about a pod", PERMITTED, "POST", event, about("Pod", OWN)),
        Statement(
            token,
            with_manager + "report one in the name of another node",
            AGENT,
            "POST",
            event,
            about("Pod", OTHER),
            says="with its own node as the source",
        ),
    )


def power_event(name: str, manager: str | None, domain: str = SITE, **metadata: Any) -> dict[str, Any]:
    """Return a PowerEvent; a manager is that of its label."""
    marked = {} if manager is None else {"labels": {"app.kubernetes.io/managed-by": manager}}
    spec = {"domain": domain, "limitWatts": 1_000, "standing": True}
    return _object(POWER_EVENTS, name, metadata={**marked, **metadata}, spec=spec)


def _ven() -> tuple[Statement, ...]:
    token, events, own, label = Token.VEN, POWER_EVENTS, "joulie-ven", "app.kubernetes.io/managed-by"
    lower = {"spec": {"limitWatts": 1}}

    def create(attempt: str, answer: str, body: Mapping[str, Any], says: str = "") -> Statement:
        return Statement(token, attempt, answer, "POST", events.collection_path(), body, says=says)

    return (
        create("create a PowerEvent as it writes them", PERMITTED, power_event("openadr-3", own)),
        create("create one without its label", VEN, power_event("openadr-3", None), f"{label}=:"),
        create("create one with another name", VEN, power_event("call-2", own), "names of its own PowerEvents"),
        create("create one for another PowerDomain", VEN, power_event("openadr-3", own, "hall"), "spec.domain=hall"),
        create(
            "create one with a finalizer",
            VEN,
            power_event("openadr-3", own, finalizers=["example.com/a"]),
            "metadata.finalizers=[example.com/a]",
        ),
        _patch(token, "change its PowerEvent", PERMITTED, events, VEN_EVENT, lower),
        _patch(token, "change that of a person", VEN, events, PERSONS_EVENT, lower, says="powerevents call-1"),
        _patch(
            token,
            "give that of a person its label",
            VEN,
            events,
            NAMED_AS_VENS,
            {"metadata": {"labels": {label: own}}},
            says=f"{label}={own}, before :",
        ),
        _patch(
            token,
            "move its PowerEvent to another PowerDomain",
            VEN,
            events,
            VEN_EVENT,
            {"spec": {"domain": "hall"}},
            says="spec.domain=hall",
        ),
        Statement(token, "delete its PowerEvent", PERMITTED, "DELETE", events.object_path(VEN_EVENT)),
        Statement(
            token,
            "delete that of a person",
            VEN,
            "DELETE",
            events.object_path(PERSONS_EVENT),
            says="may not delete powerevents call-1",
        ),
        Statement(token, "delete all PowerEvents", ROLE, "DELETE", events.collection_path()),
        _patch(token, "write the status of its PowerEvent", ROLE, events, VEN_EVENT, {}, subresource="status"),
        _patch(token, "write a PowerDomain", ROLE, POWER_DOMAINS, SITE, {}),
        Statement(token, "read a Secret", ROLE, "GET", SECRETS.object_path("bmc", NAMESPACE)),
    )


def _others() -> tuple[Statement, ...]:
    pool, extender, bmc, hook = Token.POOL, Token.EXTENDER, Token.OUT_OF_BAND, Token.RESTORE
    awake = {"metadata": {"annotations": {"joulie.io/awake-until": "2030-01-31T12:00:00Z"}}}
    return (
        _apply(pool, "write the NodeHardware of a node of its selector", PERMITTED, NODE_HARDWARES, _hardware(OWN)),
        _apply(
            pool, "write that of a node outside of it", POOL_NODES, NODE_HARDWARES, _hardware(UNMANAGED), says=UNMANAGED
        ),
        Statement(
            pool,
            "create it with a node of its selector in the path",
            POOL_NODES,
            "POST",
            NODE_HARDWARES.object_path(OWN),
            _hardware(UNMANAGED),
            says=UNMANAGED,
        ),
        _apply(
            pool,
            "add a finalizer to a NodeHardware",
            POOL,
            NODE_HARDWARES,
            _hardware(OWN, finalizers=["example.com/a"]),
            says="metadata.finalizers=[example.com/a]",
        ),
        _patch(pool, "write a Node", ROLE, NODES, OWN, {}),
        Statement(extender, "list pods", PERMITTED, "GET", PODS.collection_path()),
        _patch(extender, "write a NodeTwin", ROLE, NODE_TWINS, OWN, {}),
        _patch(extender, "write a Node", ROLE, NODES, OWN, {}),
        Statement(extender, "read a Secret", ROLE, "GET", SECRETS.object_path("bmc", NAMESPACE)),
        Statement(
            bmc, "read a Secret that `outofband.secrets` names", PERMITTED, "GET", SECRETS.object_path("bmc", NAMESPACE)
        ),
        Statement(bmc, "read another Secret", ROLE, "GET", SECRETS.object_path("other", NAMESPACE)),
        _patch(
            bmc,
            "write the status of a NodeBMC",
            PERMITTED,
            NODE_BMCS,
            OWN,
            {"status": {"powerState": "On"}},
            subresource="status",
        ),
        _patch(bmc, "write the spec of a NodeBMC", ROLE, NODE_BMCS, OWN, {"spec": {"desiredPower": "Off"}}),
        Statement(
            bmc,
            "write another Lease than its own",
            OUT_OF_BAND,
            "POST",
            LEASES.collection_path(NAMESPACE),
            _object(LEASES, "joulie-operator", spec={}),
            says="leases joulie-operator",
        ),
        _patch(bmc, "write a Node", ROLE, NODES, OWN, {}),
        Statement(bmc, "list pods", PERMITTED, "GET", PODS.collection_path()),
        Statement(bmc, "delete a pod", ROLE, "DELETE", PODS.object_path("web", "default")),
        _patch(hook, "set the annotation `joulie.io/awake-until` of a Node", PERMITTED, NODES, OWN, awake),
        _patch(
            hook,
            "set a label of a Node",
            RESTORE,
            NODES,
            OWN,
            {"metadata": {"labels": {"a": "b"}}},
            says="metadata.labels",
        ),
        _patch(
            hook,
            "give a Node an owner",
            RESTORE,
            NODES,
            OWN,
            {"metadata": _owner("ConfigMap", "absent")},
            says="metadata.ownerReferences",
        ),
        Statement(hook, "delete all NodePowerProfiles", PERMITTED, "DELETE", NODE_POWER_PROFILES.collection_path()),
        _patch(hook, "write a NodeBMC", ROLE, NODE_BMCS, OWN, {"spec": {"desiredPower": "Off"}}),
        Statement(hook, "delete a pod", ROLE, "DELETE", PODS.object_path("web", "default")),
    )


STATEMENTS: Final = (*_operator(), *_agent(), *_resource_manager(), *_ven(), *_others())


def table() -> str:
    """The table of docs/security.md."""
    head = "| token | request | answer |\n|---|---|---|\n"
    return head + "".join(f"{each.row}\n" for each in STATEMENTS)
