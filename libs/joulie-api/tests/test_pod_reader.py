"""What is read of a pod, against what the whole pod has."""

import copy

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_api import pod_reader
from joulie_api.errors import DecodeError
from joulie_api.pod_reader import read_pod
from joulie_api.wire import decode_pod
from joulie_core.demand import workload_class
from joulie_core.labels import POWER_PROFILE
from joulie_core.powerest.pod_demand import pod_demand
from joulie_core.quantity import QuantityError
from joulie_testing.api import make_pod

QUANTITIES = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "amd.com/gpu", "example.com/other"]),
    st.sampled_from(["0", "1", "2500m", "4Gi", "8"]) | st.sampled_from([1, 0.5]),
    max_size=3,
)
RESOURCES = st.none() | st.fixed_dictionaries({}, optional={"requests": QUANTITIES, "limits": st.none() | QUANTITIES})
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("ab"), "image": st.just("i")},
        optional={"resources": RESOURCES, "restartPolicy": st.sampled_from(["Always", "Never"]), "env": st.just([])},
    ),
    max_size=3,
)
EXPRESSIONS = st.fixed_dictionaries(
    {
        "key": st.sampled_from([POWER_PROFILE, "zone"]),
        "operator": st.sampled_from(["In", "NotIn", "Exists"]),
        "values": st.sampled_from([["eco"], ["performance"], ["eco", "performance"]]),
    }
)
TERMS = st.fixed_dictionaries({"matchExpressions": st.lists(EXPRESSIONS, max_size=2)})
AFFINITY = st.builds(
    lambda terms: {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}},
    st.lists(TERMS, max_size=2),
)
SPECS = st.fixed_dictionaries(
    {"nodeName": st.just("n"), "schedulerName": st.just("s")},
    optional={
        "containers": CONTAINERS,
        "initContainers": CONTAINERS,
        "overhead": QUANTITIES,
        "resources": RESOURCES,
        "nodeSelector": st.sampled_from([{POWER_PROFILE: "eco"}, {POWER_PROFILE: "performance"}, {"zone": "z"}]),
        "affinity": st.none() | AFFINITY,
        "resourceClaims": st.none() | st.just([{"name": "c", "resourceClaimName": "claim"}]),
    },
)
STATES = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("abx"), "ready": st.just(True)},
        optional={"allocatedResources": st.none() | QUANTITIES, "resources": RESOURCES},
    ),
    max_size=3,
)
STATUSES = st.fixed_dictionaries(
    {"phase": st.just("Running")},
    optional={"containerStatuses": st.none() | STATES, "initContainerStatuses": STATES},
)
PODS = st.builds(
    lambda annotations, spec, status: {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"a": "b"}, "annotations": annotations},
        "spec": spec,
        "status": status,
    },
    st.none()
    | st.dictionaries(st.sampled_from(["joulie.io/workload-class", "other"]), st.sampled_from(["performance"])),
    SPECS,
    STATUSES,
)


def gpus_of_claims(pod):
    return 3.0 * len(pod.claims) if pod.namespace == "ns" else 0.0


@given(st.lists(PODS, min_size=1, max_size=4))
def test_any_pods_in_any_order_have_the_demand_of_the_whole_pod(pods):
    for pod in pods * 2:
        raw = msgspec.json.encode(pod)
        whole = decode_pod(raw)
        expected = pod_demand(whole, workload_class(whole), gpus_of_claims(whole))
        read = read_pod(raw, gpus_of_claims)
        assert (read.uid, read.node, read.phase, read.demand) == ("u", "n", "Running", expected)


def test_a_pods_claims_are_counted_anew_each_time():
    pod = make_pod("p", node="n", cpu=1)
    pod["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": "claim"}]
    raw = msgspec.json.encode(pod)
    assert [read_pod(raw, lambda _pod, gpus=gpus: gpus).demand.gpus for gpus in (1.0, 2.0)] == [1.0, 2.0]


def life(**fields):
    """Return the states of a pod as the API server sends them."""
    pending = make_pod("p", cpu=2, **fields)
    bound = copy.deepcopy(pending)
    bound["spec"]["nodeName"] = "n1"
    bound["status"] = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}
    running = copy.deepcopy(bound)
    running["status"] = {"phase": "Running", "podIP": "10.0.0.1"}
    running["metadata"]["resourceVersion"] = "9"
    deleting = copy.deepcopy(running)
    deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return [pending, bound, running, deleting]


@pytest.fixture
def computed(monkeypatch):
    """The pods whose demand is computed."""
    pods = []

    def decode(raw):
        pods.append(raw)
        return decode_pod(raw)

    monkeypatch.setattr(pod_reader, "decode_pod", decode)
    pod_reader._kept_demand.cache_clear()
    return pods


def test_the_demand_of_a_pod_is_computed_once_in_its_life(computed):
    read = [read_pod(msgspec.json.encode(state)) for state in life(workload_class="performance")]
    assert len(computed) == 1
    assert [each.node for each in read] == [None, "n1", "n1", "n1"]
    assert all(each.annotation == "performance" and each.demand.cpu_cores == 2 for each in read)


def state(name="main", allocated="2", in_force="2"):
    """The state of a container with other requests than it makes while it is resized."""
    return {"name": name, "allocatedResources": {"cpu": allocated}, "resources": {"requests": {"cpu": in_force}}}


def running(*states, init=()):
    pod = life()[2]
    pod["spec"]["containers"][0]["name"] = "main"
    return pod | {"status": {"phase": "Running", "containerStatuses": states, "initContainerStatuses": init}}


@pytest.mark.parametrize(
    ("allocated", "in_force", "cores"), [("4", "4", 4), ("2", "4", 4), ("4", "2", 4), ("1", "1", 2), ("2", "2", 2)]
)
def test_a_resize_downwards_counts_when_the_kubelet_has_carried_it_out_and_one_upwards_at_once(
    allocated, in_force, cores
):
    pod = msgspec.json.encode(running(state(allocated=allocated, in_force=in_force)))
    assert read_pod(pod).demand.cpu_cores == cores


def test_the_state_of_another_container_does_not_count():
    assert read_pod(msgspec.json.encode(running(state("other", "8", "8")))).demand.cpu_cores == 2


def test_a_resize_of_a_sidecar_counts():
    pod = running(init=[state("log", "4", "4")])
    resources = {"requests": {"cpu": "1"}}
    pod["spec"]["initContainers"] = [{"name": "log", "restartPolicy": "Always", "resources": resources}]
    assert read_pod(msgspec.json.encode(pod)).demand.cpu_cores == 6


@pytest.mark.parametrize("field", [b"allocatedResources", b"resources"])
def test_a_resize_counts_however_the_name_of_its_field_is_written(field):
    pod = msgspec.json.encode(running(state(allocated="4", in_force="4")))
    head, status = pod.split(b'"containerStatuses"')
    status = status.replace(b'"' + field, b'"\\u%04x' % field[0] + field[1:])
    only = b"resources" if field == b"allocatedResources" else b"allocatedResources"
    assert read_pod(head + b'"containerStatuses"' + status.replace(b'"' + only, b'"none')).demand.cpu_cores == 4


def test_containers_that_are_equal_but_for_a_long_environment_have_the_same_demand(computed):
    pods = life()[2:3] * 2
    texts = [msgspec.json.encode(pod) for pod in pods]
    texts[1] = texts[1].replace(b'"resources"', b'"env":[{"name":"A","value":"' + 5000 * b"x" + b'"}],"resources"', 1)
    assert [read_pod(text).demand.cpu_cores for text in texts] == [2, 2]
    assert len(computed) == 1


def test_the_names_of_containers_and_their_state_make_no_pods_of_different_demand(computed):
    pods = [running(), running(state())]
    pods[1]["spec"]["containers"][0]["name"] = pods[1]["status"]["containerStatuses"][0]["name"] = "other"
    assert len({read_pod(msgspec.json.encode(pod)).demand.cpu_cores for pod in pods}) == len(computed) == 1


def test_the_demand_of_pods_that_request_the_same_is_computed_once(computed):
    for number in range(10):
        read_pod(msgspec.json.encode(make_pod(f"p{number}", f"team-{number}", cpu=1, node=f"n{number}")))
    assert len(computed) == 1


def test_the_demand_of_a_pod_with_many_fields_is_computed_each_time(computed):
    selector = {f"key-{number}": "value" * 10 for number in range(100)}
    raw = msgspec.json.encode(make_pod("p", node_selector=selector))
    assert read_pod(raw) == read_pod(raw)
    assert len(computed) == 2


def _resize(pod):
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "4"


def _annotate(pod):
    pod["metadata"].setdefault("annotations", {})["joulie.io/workload-class"] = "performance"


def _select(pod):
    pod["spec"]["nodeSelector"] = {"joulie.io/power-profile": "performance"}


def _require(pod):
    expression = {"key": "joulie.io/power-profile", "operator": "In", "values": ["performance"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    pod["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _start(pod):
    pod["spec"]["initContainers"] = [{"name": "init", "resources": {"requests": {"cpu": "8"}}}]


def _overhead(pod):
    pod["spec"]["overhead"] = {"cpu": "1"}


def _whole(pod):
    pod["spec"]["resources"] = {"requests": {"cpu": "3"}}


@pytest.mark.parametrize("change", [_resize, _annotate, _select, _require, _start, _overhead, _whole])
def test_whatever_changes_the_demand_is_seen(change):
    pod = life()[2]
    before = read_pod(msgspec.json.encode(pod)).demand
    change(pod)
    raw = msgspec.json.encode(pod)
    whole = decode_pod(raw)
    assert read_pod(raw).demand == pod_demand(whole, workload_class(whole)) != before


@pytest.mark.parametrize(
    "raw", [b"{}", b"[]", b"{", b"\xff", b'{"metadata":{"name":"\xff"}}', b'{"metadata":{},"spec":{"containers":1}}']
)
def test_what_is_no_pod_is_refused(raw):
    with pytest.raises(DecodeError):
        read_pod(raw)


def test_a_quantity_that_cannot_be_read_is_an_error_every_time():
    for _ in range(2):
        with pytest.raises(QuantityError):
            read_pod(msgspec.json.encode(make_pod(cpu="much")))
