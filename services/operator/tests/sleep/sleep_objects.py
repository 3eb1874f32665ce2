"""Nodes, pods and NodeBMCs as the API server sends them, decoded as the controller does."""

import json

from joulie_api.wire import decode_kind
from joulie_core.kinds import NodeBMC, NodeSleepPolicy
from joulie_operator.sleep.nodes import read_node
from joulie_operator.sleep.watches import WatchedCluster
from joulie_testing.api import make_node, make_pod

RECORD = "joulie.io/sleep-record"
STATE = "joulie.io/sleep-state"
REQUESTED = "joulie.io/requested-power"
#: API versions of controllers of pods, by kind.
API_VERSIONS = {"Job": "batch/v1", "Node": "v1", "ReplicationController": "v1"}
MAINTENANCE = "joulie.io/maintenance"
SWITCHED_OFF = "joulie.io/switched-off"
#: A mark of the operator's, of an hour before the tests' time.
MARK = '{"at":"2027-01-15T07:00:00Z","bootID":"first"}'
OWN_TAINT = {"key": "joulie.io/asleep", "effect": "NoSchedule"}


def seen_node(name="n1", *, version="41", taints=(), annotations=None, conditions=(), labels=None, boot_id=""):
    """Return a Node."""
    body = make_node(name, labels=labels)
    body["metadata"] |= {"resourceVersion": version, "uid": f"uid-{name}", "annotations": annotations or {}}
    body["spec"]["taints"] = list(taints)
    body["status"]["conditions"] = list(conditions)
    body["status"]["nodeInfo"] = {"bootID": boot_id}
    return read_node(json.dumps(body).encode())


def seen_bmc(name="n1", *, version="51", desired=None, requested=None, mark=None, status=None, **spec):
    """Return a NodeBMC.

    `requested` is the annotation of what the operator has written, `mark` that of a server that it has switched off;
    by default it is there where Off was written.
    """
    spec = {
        "nodeName": name,
        "protocol": "redfish",
        "address": "https://10.0.0.1",
        "credentialsSecretRef": {"name": "bmc"},
        "powerOff": "Allowed",
    } | spec
    if desired is not None:
        spec["desiredPower"] = desired
    annotations = {} if requested is None else {REQUESTED: requested}
    if mark is not None or requested == "Off":
        annotations[SWITCHED_OFF] = MARK if mark is None else mark
    metadata = {
        "name": name,
        "generation": 7,
        "resourceVersion": version,
        "uid": f"uid-{name}",
        "annotations": annotations,
    }
    body = {"apiVersion": "joulie.io/v1alpha1", "kind": "NodeBMC", "metadata": metadata, "spec": spec}
    if status is not None:
        body["status"] = status
    return decode_kind(NodeBMC)(json.dumps(body).encode())


def seen_policy(name="p", *, selector=None, mode="Act", **spec):
    """Return a NodeSleepPolicy."""
    body = {"nodeSelector": selector or {"pool": "a"}, "mode": mode} | spec
    raw = {"metadata": {"name": name, "resourceVersion": "1"}, "spec": body}
    return decode_kind(NodeSleepPolicy)(json.dumps(raw).encode())


def window(**changes):
    """Return a window of a NodeSleepPolicy as JSON."""
    return {
        "days": ["Mon", "Sun"],
        "start": "07:30",
        "end": "24:00",
        "timeZone": "Europe/Rome",
        "minAwake": 7,
    } | changes


def controlled_by(kind, name, *, api_version=None):
    """Return the owner reference of a controller."""
    version = api_version or API_VERSIONS.get(kind, "apps/v1")
    return {"apiVersion": version, "kind": kind, "name": name, "controller": True}


def owned_pod(name, node="n1", *, owner="ReplicaSet", **pod):
    """Return a pod as JSON, with a controller of that kind; None for a pod without one."""
    made = make_pod(name, node=node, **pod)
    if owner:
        made["metadata"]["ownerReferences"] = [controlled_by(owner, f"{name}-owner")]
    return made


def seen_cluster(**seen):
    """Return a cluster of which nothing is there but what is given."""
    kinds = ("nodes", "pods", "daemon_sets", "bmcs", "policies", "claims", "volumes")
    nothing = {kind: {} for kind in kinds}
    return WatchedCluster(**nothing | {"pods_unknown": False, "unread_bmcs": frozenset()} | seen)
