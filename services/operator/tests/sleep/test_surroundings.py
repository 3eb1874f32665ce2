"""What pods ask of each other and of volumes, from what is watched to what waits and what may be moved."""

import json
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry
from services.operator.tests.sleep.sleep_objects import OWN_TAINT, owned_pod, seen_cluster, seen_node

from joulie_api.errors import DecodeError
from joulie_api.failures import Failures
from joulie_core.names import NodeName
from joulie_core.pod import Requirement, SelectorOperator, Term
from joulie_core.sleep.pod_terms import PodSelector, PodSpread, PodTerm
from joulie_core.timestamps import rfc3339
from joulie_operator.sleep.facts import gather
from joulie_operator.sleep.pod_rules import read_rules
from joulie_operator.sleep.pods import read_pod
from joulie_operator.sleep.volumes import read_claim, read_volume

NOW_S = 1_800_000_000.0
HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
APP = Requirement("app", SelectorOperator.IN, ("web",))
DATA = {"persistentVolumeClaim": {"claimName": "data"}}
#: What kube-scheduler says of a pod that no node takes.
COUNTED = "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s). preemption: not eligible."


def term(**fields):
    return {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}} | fields


def anti(*terms):
    return {"podAntiAffinity": {REQUIRED: list(terms or (term(),))}}


def spread(**fields):
    return {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule"} | fields


def in_zone(*zones):
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": list(zones)}]}]}


def pod(name="p", node="n1", *, labels=None, volumes=(), owner="ReplicaSet", **spec):
    made = owned_pod(name, node, owner=owner)
    made["metadata"]["labels"] = labels or {}
    made["spec"] |= {"volumes": [{"name": f"v{at}", **each} for at, each in enumerate(volumes)], **spec}
    return made


def waiting(name="w", *, message=COUNTED, since_s=NOW_S, **fields):
    made = pod(name, None, **fields)
    made["status"]["conditions"] = [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": rfc3339(since_s, "seconds"),
        }
    ]
    return made


def claim(volume=None):
    return read_claim(json.dumps({"spec": {"volumeName": volume} if volume else {}}).encode())


def volume(**spec):
    return read_volume(json.dumps({"spec": spec}).encode())


def facts(*pods, claims=None, volumes=None, nodes=("n1", "n2"), judged=True):
    decoded = [read_pod(json.dumps(each).encode()) for each in pods]
    seen = seen_cluster(
        nodes={name: seen_node(name, labels={HOST: name}) for name in nodes},
        pods={f"{each.namespace}/{each.name}": each for each in decoded},
        claims={f"default/{name}": each for name, each in (claims or {}).items()},
        volumes=volumes or {},
    )
    views = {NodeName(name): None for name in nodes if judged}
    return gather(seen, {}, views, NOW_S, Failures(CollectorRegistry()))


def counts(found, name="n1"):
    node = found.nodes[NodeName(name)]
    return node.protected_pods, len(node.movable_pods)


# --- what is read -----------------------------------------------------------------------------------------------------


def rules(**spec):
    return read_rules(json.dumps(spec).encode())


def test_required_rules_between_pods_are_read_and_preferred_ones_are_not():
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term()}]}
    nodes = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}
    near = {"podAffinity": {REQUIRED: [term()]} | preferred}
    found = rules(affinity=near | {"podAntiAffinity": preferred, "nodeAffinity": nodes})
    assert found.affinity == (PodTerm(PodSelector((APP,)), HOST),)
    assert (found.anti_affinity, found.spreads, found.uncertain) == ((), (), False)


@pytest.mark.parametrize(
    ("asked", "namespaces", "uncertain"),
    [
        ({}, frozenset(), False),
        ({"namespaces": ["a", "b"]}, frozenset({"a", "b"}), False),
        ({"namespaceSelector": {}}, None, False),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, None, True),
        ({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}}, None, True),
    ],
)
def test_the_namespaces_of_a_term_are_read(asked, namespaces, uncertain):
    far = rules(affinity=anti(term(**asked)))
    assert (far.anti_affinity[0].selector.namespaces, far.uncertain) == (namespaces, uncertain)
    near = rules(affinity={"podAffinity": {REQUIRED: [term(**asked)]}})
    assert (near.affinity[0].selector.namespaces, near.uncertain) == (namespaces, uncertain)


def test_selectors_are_read_whole_and_one_that_is_missing_selects_no_pod():
    expression = {"key": "tier", "operator": "NotIn", "values": ["x"]}
    selector = {"matchLabels": {"app": "web"}, "matchExpressions": [expression]}
    read, missing = rules(affinity=anti(term(labelSelector=selector), {"topologyKey": HOST})).anti_affinity
    assert read.selector.requirements == (APP, Requirement("tier", SelectorOperator.NOT_IN, ("x",)))
    assert missing.selector.requirements is None


def test_constraints_of_spreading_are_read_unless_they_are_preferences():
    hard = {
        "maxSkew": 2,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "minDomains": 3,
        "nodeAffinityPolicy": "Ignore",
        "nodeTaintsPolicy": "Honor",
        "matchLabelKeys": ["pod-template-hash"],
    }
    soft = hard | {"whenUnsatisfiable": "ScheduleAnyway"}
    found = rules(topologySpreadConstraints=[soft, hard, spread()]).spreads
    assert found == (
        PodSpread(PodSelector((APP,)), "zone", 2, 3, False, True, ("pod-template-hash",)),
        PodSpread(PodSelector(None), HOST),
    )


@pytest.mark.parametrize(
    ("spec", "uncertain"),
    [
        ({"containers": [{"ports": [{"containerPort": 80}]}]}, False),
        ({"containers": [{"ports": [{"containerPort": 80, "hostPort": 80}]}]}, True),
        ({"initContainers": [{"ports": [{"hostPort": 80}]}]}, True),
        ({"resourceClaims": [{"name": "gpu"}]}, True),
        ({}, False),
    ],
)
def test_what_is_not_simulated_makes_a_pod_uncertain(spec, uncertain):
    assert rules(**spec).uncertain is uncertain


@pytest.mark.parametrize("raw", [b"[]", b'{"affinity": 1}', b'{"topologySpreadConstraints": [{"maxSkew": "x"}]}'])
def test_what_is_no_spec_is_refused(raw):
    with pytest.raises(DecodeError, match=r"^not a Pod: "):
        read_rules(raw)


def test_names_of_nodes_are_read_into_their_terms():
    field = {"key": "metadata.name", "operator": "In", "values": ["n2"]}
    terms = [{"matchFields": [field]}, *in_zone("a")["nodeSelectorTerms"]]
    found = facts(waiting(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})).pending[0]
    assert found.required_terms == (
        Term(fields=(Requirement("metadata.name", SelectorOperator.IN, ("n2",)),)),
        Term((Requirement("zone", SelectorOperator.IN, ("a",)),)),
    )


# --- pods that wait ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "waits"),
    [
        (COUNTED, True),
        ("", True),
        ("no nodes available to schedule pods", True),
        ("pod group is not ready, 2 pending", True),
        ('0/3 nodes are available: persistentvolumeclaim "data" not found. not found', False),
        ("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.", False),
        ('0/1500 nodes are available: resourceclaim "gpu" not found. preemption: 0/1500 nodes are available.', False),
    ],
)
def test_a_pod_that_kube_scheduler_has_looked_at_no_node_for_waits_for_none(message, waits):
    assert len(facts(waiting(message=message)).pending) == waits


def test_a_pod_that_has_been_refused_for_a_minute_is_overdue():
    late, new = waiting("late", since_s=NOW_S - 60), waiting("new", since_s=NOW_S - 59)
    assert [each.overdue for each in facts(late, new).pending] == [True, False]


def test_labels_are_kept_only_where_a_rule_asks_for_them():
    plain = waiting(labels={"app": "web", "team": "x"})
    assert facts(plain).pending[0].labels == {}
    guard = pod("guard", affinity=anti())
    for pods in ((plain, guard), (guard, plain)):
        found = facts(*pods)
        assert (found.pending[0].labels, found.pending[0].namespace) == ({"app": "web"}, "default")
        assert [each.anti_affinity[0].selector.namespaces for each in found.nodes[NodeName("n1")].pods] == [{"default"}]


def test_pods_of_nodes_are_kept_only_where_a_pod_asks_for_others():
    web = pod(labels={"app": "web"})
    assert facts(web).nodes[NodeName("n1")].pods == ()
    assert len(facts(web, waiting(affinity=anti())).nodes[NodeName("n1")].pods) == 1


def test_a_term_without_namespaces_is_about_the_pods_own_namespace():
    (found,) = facts(waiting(affinity={"podAffinity": {REQUIRED: [term()]}})).pending
    assert found.affinity == (PodTerm(PodSelector((APP,), frozenset({"default"})), HOST),)


def test_the_pods_of_a_node_that_cannot_be_judged_keep_others_away_all_the_same():
    guard = pod("guard", affinity=anti())
    known, unknown = (facts(guard, judged=judged).nodes[NodeName("n1")] for judged in (True, False))
    assert (known.protected_pods, unknown.protected_pods) == (1, None)
    assert unknown.pods == known.pods
    assert [each.anti_affinity[0].topology_key for each in unknown.pods] == [HOST]


def test_pods_that_are_alike_by_what_rules_ask_for_are_the_same():
    alike = [pod(f"p{at}", labels={"app": "web", "number": str(at)}) for at in range(3)]
    other = pod("other", labels={"app": "db", "number": "0"})
    large = pod("large", labels={"app": "web", "number": "0"}, containers=[{"resources": {"requests": {"cpu": "8"}}}])
    found = facts(*alike, other, large, pod("guard", affinity=anti())).nodes[NodeName("n1")].pods
    assert [(each.labels, each.requests.get("cpu")) for each in found] == [
        *[({"app": "web"}, None)] * 3,
        ({"app": "db"}, None),
        ({"app": "web"}, 8),
        ({}, None),
    ]
    assert len({id(each) for each in found}) == 4


def test_a_spread_over_pods_of_one_revision_counts_only_those():
    of_revision = spread(matchLabelKeys=["hash"], labelSelector={})
    asked = waiting(topologySpreadConstraints=[of_revision], labels={"hash": "2"})
    (found,) = facts(asked).pending[0].spreads
    assert found.selector == PodSelector((Requirement("hash", SelectorOperator.IN, ("2",)),), frozenset({"default"}))


@pytest.mark.parametrize(
    ("claims", "volumes", "expected"),
    [
        ({}, {}, None),
        ({"data": claim("pv")}, {}, None),
        ({"data": claim()}, {}, (None, True)),
        ({"data": claim("pv")}, {"pv": volume()}, (None, False)),
        (
            {"data": claim("pv")},
            {"pv": volume(nodeAffinity={"required": in_zone("a")})},
            ((Term((Requirement("zone", SelectorOperator.IN, ("a",)),)),), False),
        ),
    ],
)
def test_a_pod_waits_for_the_nodes_of_its_volume_and_for_none_without_one(claims, volumes, expected):
    asked = waiting(volumes=[DATA])
    found = [(each.required_terms, each.uncertain) for each in facts(asked, claims=claims, volumes=volumes).pending]
    assert found == ([] if expected is None else [expected])


def test_the_claim_of_an_ephemeral_volume_has_the_name_of_its_pod():
    asked = waiting(volumes=[{"ephemeral": {"volumeClaimTemplate": {}}}])
    assert facts(asked).pending == ()
    (found,) = facts(asked, claims={"w-v0": claim("pv")}, volumes={"pv": volume()}).pending
    assert found.uncertain is False


@pytest.mark.parametrize(
    ("kind", "uncertain"),
    [
        ("configMap", False),
        ("downwardAPI", False),
        ("emptyDir", False),
        ("hostPath", False),
        ("image", False),
        ("nfs", False),
        ("projected", False),
        ("secret", False),
        ("csi", False),
        ("iscsi", True),
        ("awsElasticBlockStore", True),
    ],
)
def test_a_volume_that_not_every_node_can_mount_makes_a_pod_uncertain(kind, uncertain):
    (found,) = facts(waiting(volumes=[{kind: {}}])).pending
    assert found.uncertain is uncertain


def mounting(of_pod, of_volume):
    """Return a pod that waits, from the required node affinity of itself and of its volume."""
    affinity = {} if of_pod is None else {"affinity": {"nodeAffinity": {REQUIRED: of_pod}}}
    volumes = {"pv": volume(csi={}, nodeAffinity={"required": of_volume})}
    (found,) = facts(waiting(volumes=[DATA], **affinity), claims={"data": claim("pv")}, volumes=volumes).pending
    return found


def zone(*values):
    return Requirement("zone", SelectorOperator.IN, values)


def test_a_pod_with_an_affinity_of_its_own_needs_that_of_its_volume_too():
    own = {"nodeSelectorTerms": [*in_zone("a")["nodeSelectorTerms"], {}]}
    assert mounting(own, in_zone("a", "b")).required_terms == (Term((zone("a"), zone("a", "b"))),)
    assert mounting(own, None).required_terms == (Term((zone("a"),)), Term())


def test_names_of_nodes_count_beside_the_affinity_of_a_volume():
    named = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]}
    name = Requirement("metadata.name", SelectorOperator.IN, ("n2",))
    both = (Term((zone("a"),), (name,)),)
    assert (mounting(named, in_zone("a")).required_terms, mounting(in_zone("a"), named).required_terms) == (both, both)


@pytest.mark.parametrize(("of_pod", "of_volume", "uncertain"), [(4, 4, False), (17, 1, True), (1, 17, True)])
def test_more_terms_than_are_multiplied_make_a_pod_uncertain(of_pod, of_volume, uncertain):
    one, *_ = in_zone("a")["nodeSelectorTerms"]
    found = mounting({"nodeSelectorTerms": [one] * of_pod}, {"nodeSelectorTerms": [one] * of_volume})
    assert (found.uncertain, len(found.required_terms)) == (uncertain, of_pod if uncertain else 16)


# --- pods that may be moved -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "movable"),
    [
        ({}, True),
        ({"volumes": [{"configMap": {}}, {"secret": {}}, {"projected": {}}]}, True),
        ({"volumes": [{"iscsi": {}}]}, False),
        ({"affinity": anti()}, False),
        ({"affinity": {"podAffinity": {REQUIRED: [term()]}}}, False),
        ({"topologySpreadConstraints": [spread()]}, False),
        ({"topologySpreadConstraints": [spread(whenUnsatisfiable="ScheduleAnyway")]}, True),
        ({"containers": [{"name": "main", "ports": [{"hostPort": 80}]}]}, False),
        ({"resourceClaims": [{"name": "gpu"}]}, False),
    ],
)
def test_only_pods_of_which_it_is_known_where_they_have_room_are_moved(spec, movable):
    assert counts(facts(pod(**spec))) == ((0, 1) if movable else (1, 0))


def test_a_pod_that_others_keep_away_is_not_moved():
    guard = pod("guard", "n2", affinity=anti())
    assert counts(facts(pod(labels={"app": "web"}), guard)) == (1, 0)
    assert counts(facts(pod(labels={"app": "db"}), guard)) == (0, 1)


def test_every_pod_of_which_it_is_not_known_where_it_has_room_counts():
    assert counts(facts(pod("a", resourceClaims=[{"name": "gpu"}]), pod("b", resourceClaims=[{"name": "gpu"}]))) == (
        2,
        0,
    )


@pytest.mark.parametrize(
    ("claims", "volumes", "movable"),
    [
        ({}, {}, False),
        ({"data": claim()}, {}, False),
        ({"data": claim("pv")}, {}, False),
        ({"data": claim("pv")}, {"pv": volume(nfs={})}, True),
        ({"data": claim("pv")}, {"pv": volume(local={"path": "/d"}, nodeAffinity={"required": in_zone("a")})}, False),
        ({"data": claim("pv")}, {"pv": volume(hostPath={"path": "/d"})}, False),
    ],
)
def test_data_of_a_claim_that_is_on_a_node_or_not_known_keeps_the_node_awake(claims, volumes, movable):
    asked = pod(volumes=[DATA])
    assert counts(facts(asked, claims=claims, volumes=volumes)) == ((0, 1) if movable else (1, 0))


def test_a_pod_is_moved_only_to_nodes_that_its_volume_admits():
    asked = pod(volumes=[DATA])
    volumes = {"pv": volume(csi={}, nodeAffinity={"required": in_zone("a")})}
    (moved,) = facts(asked, claims={"data": claim("pv")}, volumes=volumes).nodes[NodeName("n1")].movable_pods
    assert moved.required_terms == (Term((Requirement("zone", SelectorOperator.IN, ("a",)),)),)


# --- taints -----------------------------------------------------------------------------------------------------------


def test_a_full_disk_keeps_pods_from_a_node_that_is_awake_and_says_nothing_of_one_that_sleeps():
    disk = {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}
    late = [{"key": f"node.kubernetes.io/{each}", "effect": "NoExecute"} for each in ("not-ready", "unreachable")]
    assert [each.key for each in seen_node(taints=[disk, *late]).lasting_taints] == [disk["key"]]
    assert seen_node(taints=[disk, *late, OWN_TAINT]).lasting_taints == ()


def test_a_pod_keeps_what_it_is_without_rules():
    asked = read_pod(json.dumps(waiting()).encode())
    assert facts(waiting()).pending == (replace(asked.fit, overdue=False),)
