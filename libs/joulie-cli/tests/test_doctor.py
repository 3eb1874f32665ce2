import json

import pytest

from joulie_api.permissions import SERVICES
from joulie_testing.api import (
    Respond,
    make_node,
    make_node_bmc,
    make_node_hardware,
    make_node_power_profile,
    make_pod,
)
from joulie_testing.cli import NAMESPACE, extender_service, managed_node, service_pod

METRICS = b'# HELP x y\njoulie_scheduler_filter_requests_total{workload_class="standard"} 12.0\n'


def role(component, drop=""):
    rules = [grant.rule() for grant in SERVICES[component].cluster]
    for rule in rules:
        rule["verbs"] = [verb for verb in rule["verbs"] if verb != drop]
    labels = {"app.kubernetes.io/name": "joulie", "app.kubernetes.io/component": component}
    metadata = {"name": f"joulie-{component}", "labels": labels}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}


@pytest.fixture
def healthy(fake_api):
    """A cluster in which nothing is to be found."""
    for name in ("n1", "n2"):
        fake_api.put_all([*managed_node(name), make_node_hardware(name), service_pod("agent", name, owner="DaemonSet")])
    fake_api.put_all([service_pod("operator", "n1"), service_pod("extender", "n1"), extender_service()])
    fake_api.put_all([role("operator"), role("agent"), role("extender")])
    fake_api.faults.add(Respond(200, body=METRICS), path="/proxy/metrics", times=None)
    return fake_api


async def checks(cli):
    result = await cli("doctor", "-o", "json")
    return result.code, json.loads(result.out)["checks"]


async def found(cli):
    code, every = await checks(cli)
    assert code == 1
    return [(each["check"], each["text"], each["nodes"]) for each in every if each["state"] == "finding"]


async def test_a_healthy_cluster_has_no_finding_and_everything_is_checked(healthy, cli):
    code, every = await checks(cli)
    assert (code, {each["state"] for each in every}) == (0, {"ok"})
    names = {"CRDs", "versions", "services", "roles", "scheduler", "targets", "agents", "twins", "caps", "labels"}
    assert {each["check"] for each in every} == names
    assert "nothing found" in (await cli("doctor")).out


async def test_missing_crds_are_the_only_finding(fake_api, cli):
    fake_api.faults.add(Respond(404), path="/apis/joulie.io", times=None)
    result = await cli("doctor")
    assert result.code == 1
    assert "does not serve nodehardwares" in " ".join(result.out.split())
    assert "1 finding" in result.out


async def test_a_stale_twin_is_found_by_name(healthy, cli):
    healthy.put_all(managed_node("n2", age_s=400))
    ((check, text, nodes),) = await found(cli)
    assert (check, nodes) == ("twins", ["n2"])
    assert "older than 300 s" in text


async def test_a_node_without_an_agent_is_found(healthy, cli):
    healthy.remove("NodeHardware", "n2")
    healthy.put(service_pod("agent", "n2", owner="DaemonSet", ready=False))
    names = [(check, nodes) for check, _, nodes in await found(cli) if check == "agents"]
    assert names == [("agents", ["n2"]), ("agents", ["n2"])]


@pytest.mark.parametrize("state", ["powering-off", "asleep", "waking"])
async def test_a_node_that_is_off_misses_no_agent(healthy, cli, state):
    healthy.patch("Node", "n2", {"metadata": {"labels": {"joulie.io/sleep-state": state}}})
    healthy.put(service_pod("agent", "n2", owner="DaemonSet", ready=False))
    code, every = await checks(cli)
    assert code == 0
    assert [each["text"] for each in every if each["check"] == "sleep"] == ["1 node is not awake, none in quarantine"]
    assert "agent: 1 of 1 pods are ready" in [each["text"] for each in every]


async def test_a_node_that_is_only_about_to_sleep_still_needs_its_agent(healthy, cli):
    healthy.patch("Node", "n2", {"metadata": {"labels": {"joulie.io/sleep-state": "cordoned"}}})
    healthy.put(service_pod("agent", "n2", owner="DaemonSet", ready=False))
    assert ["n2"] in [nodes for check, _, nodes in await found(cli) if check == "agents"]


async def test_a_node_in_quarantine_is_found_with_the_way_out(healthy, cli):
    healthy.patch("Node", "n2", {"metadata": {"labels": {"joulie.io/sleep-state": "quarantined"}}})
    (finding,) = await found(cli)
    assert (finding[0], finding[2]) == ("sleep", ["n2"])
    text = " ".join((await cli("doctor")).out.split())
    assert "kubectl joulie wake n2 --clear-quarantine" in text


async def test_a_blocked_cap_has_the_way_out_of_its_reason(healthy, cli):
    healthy.put_all(managed_node("n1", cpu={"result": "blocked", "reason": "FirmwareLocked"}))
    result = await cli("doctor")
    assert result.code == 1
    assert "-> unlock power limits in the firmware" in result.out


async def test_labels_that_contradict_the_target_are_found(healthy, cli):
    healthy.patch("Node", "n1", {"metadata": {"labels": {"joulie.io/power-profile": "eco"}}})
    healthy.put(make_node("free", managed=False, labels={"joulie.io/power-profile": "eco"}))
    texts = {text: nodes for check, text, nodes in await found(cli) if check == "labels"}
    assert texts == {
        "labels of nodes contradict their NodePowerProfile": ["n1"],
        "nodes without a target have the label joulie.io/power-profile": ["free"],
    }


async def test_a_class_that_contradicts_the_target_is_found(healthy, cli):
    healthy.put_all(managed_node("n1", schedulable_class="eco"))
    assert [(check, nodes) for check, _, nodes in await found(cli)] == [("labels", ["n1"])]


async def test_managed_nodes_without_target_and_targets_without_node_are_found(healthy, cli):
    healthy.put_all([make_node("new"), make_node_hardware("new"), service_pod("agent", "new", owner="DaemonSet")])
    healthy.put(make_node_power_profile("gone"))
    texts = {text: nodes for check, text, nodes in await found(cli) if check == "targets"}
    assert texts == {
        "managed nodes have no NodePowerProfile": ["new"],
        "NodePowerProfiles exist for nodes that are not managed": ["gone"],
    }


async def test_a_permission_that_a_service_lacks_is_found(healthy, cli):
    healthy.put(role("extender", drop="watch"))
    ((check, text, _),) = await found(cli)
    assert check == "roles"
    assert "lacks: watch nodes; watch pods" in text


@pytest.mark.parametrize("component", ["operator", "agent", "extender"])
async def test_a_service_that_is_not_ready_is_found(healthy, cli, component):
    healthy.put(service_pod(component, "n1", ready=False, owner="DaemonSet"))
    assert "services" in {check for check, _, _ in await found(cli)}


@pytest.mark.parametrize(("age_s", "state"), [(10, "not checked"), (400, "finding")])
async def test_services_without_pods_are_not_missed_while_they_write_twins(healthy, cli, age_s, state):
    for name in ("n1", "n2"):
        healthy.remove("Pod", f"joulie-agent-{name}", NAMESPACE)
        healthy.put_all(managed_node(name, age_s=age_s))
    for name in ("operator", "extender"):
        healthy.remove("Pod", f"joulie-{name}-n1", NAMESPACE)
    _, every = await checks(cli)
    assert {each["state"] for each in every if each["check"] == "services"} == {state}


async def test_services_of_another_version_are_found(healthy, cli):
    healthy.put(service_pod("operator", "n1", version="0.9.0"))
    ((check, text, _),) = await found(cli)
    assert check == "versions"
    assert "services are 0.9.0" in text


def scheduler(*command):
    pod = make_pod("kube-scheduler-a", "kube-system", node="a", labels={"component": "kube-scheduler"})
    pod["spec"]["containers"][0]["command"] = ["kube-scheduler", *command]
    return pod


@pytest.mark.parametrize(
    ("command", "metrics", "state"),
    [
        ((), b"", "finding"),
        (("--config=/etc/s.yaml",), b"", "finding"),
        (("--config=/etc/s.yaml",), None, "not checked"),
        ((), METRICS, "ok"),
        (None, None, "not checked"),
    ],
)
async def test_the_scheduler_is_judged_by_its_command_and_the_extenders_requests(healthy, cli, command, metrics, state):
    healthy.faults.clear()
    answer = Respond(503) if metrics is None else Respond(200, body=metrics)
    healthy.faults.add(answer, path="/proxy/metrics", times=None)
    if command is not None:
        healthy.put(scheduler(*command))
    _, every = await checks(cli)
    assert [each["state"] for each in every if each["check"] == "scheduler"] == [state]


async def test_what_may_not_be_read_is_not_checked_and_no_finding(healthy, cli):
    for path in ("/pods", "/clusterroles", "/services"):
        healthy.faults.add(Respond(403), verb="list", path=path, times=None)
    code, every = await checks(cli)
    assert code == 0
    unchecked = {each["check"] for each in every if each["state"] == "not checked"}
    assert unchecked == {"versions", "services", "roles", "scheduler"}


async def test_every_line_fits_80_columns(healthy, cli):
    for number in range(8):
        healthy.put_all(managed_node(f"a-rather-long-name-{number}", age_s=1000))
    assert max(map(len, (await cli("doctor")).out.splitlines())) <= 80


def bmc(name, *, cap=False, watts=344, **conditions):
    reported = {"Reachable": "True/Answers", "PowerAsDesired": "True/Unmanaged"} | conditions
    pairs = [(kind, *text.split("/")) for kind, text in reported.items()]
    found = [{"type": kind, "status": status, "reason": reason} for kind, status, reason in pairs]
    spec = {"cap": {"watts": 300, "expiresAt": "2030-01-01T00:00:00Z"}} if cap else {}
    return make_node_bmc(name, spec=spec, status={"conditions": found, "powerWatts": watts})


async def test_bmcs_that_answer_are_no_finding(healthy, cli):
    healthy.put_all([service_pod("outofband", "n1"), bmc("n1"), bmc("n2", cap=True, Capped="True/InForce", watts=None)])
    code, every = await checks(cli)
    texts = [each["text"] for each in every if each["check"] == "BMCs"]
    assert (code, texts) == (0, ["2 answer, 1 of them with the watts of the whole server"])


async def test_faults_of_bmcs_are_found_with_their_reason(healthy, cli):
    healthy.put_all(
        [
            service_pod("outofband", "n1"),
            bmc("n1", Reachable="False/TimedOut", Capped="False/NoCap"),
            bmc("n2", cap=True, Capped="False/LimitExceptionPowersOff"),
            bmc("n3", PowerAsDesired="False/NotFollowed", WakeProven="False/BootTimedOut"),
            make_node_bmc("n4"),
            bmc("n5", PowerAsDesired="False/NodeNotTainted"),
            bmc("n6", PowerAsDesired="False/Changing"),
        ]
    )
    assert [(text, nodes) for check, text, nodes in await found(cli) if check == "BMCs"] == [
        ("no answer, so the power state is unknown: NotReported", ["n4"]),
        ("no answer, so the power state is unknown: TimedOut", ["n1"]),
        ("the power does not become what is desired: NodeNotTainted", ["n5"]),
        ("the power does not become what is desired: NotFollowed", ["n3"]),
        ("caps of whole servers are not in force: LimitExceptionPowersOff", ["n2"]),
        ("the last boot did not end in time", ["n3"]),
    ]


@pytest.mark.parametrize(
    ("reason", "text", "way_out"),
    [
        ("NodeMissing", "Joulie switched servers off, and they stay off: NodeMissing", '"desiredPower":"Off"'),
        ("Quarantined", "Joulie switched servers off, and they stay off: Quarantined", "--clear-quarantine"),
        ("Maintenance", "servers stay off until a person ends what keeps them so: Maintenance", "--end"),
        ("Cordoned", "servers stay off until a person ends what keeps them so: Cordoned", "kubectl uncordon"),
    ],
)
async def test_servers_that_joulie_left_off_are_found_whatever_became_of_their_nodes(
    healthy, cli, reason, text, way_out
):
    healthy.put_all(
        [service_pod("outofband", "n1"), bmc("n9", LeftOff=f"True/{reason}"), bmc("n8", LeftOff="False/Handled")]
    )
    assert await found(cli) == [("BMCs", text, ["n9"])]
    assert way_out in " ".join((await cli("doctor")).out.split())


async def test_bmcs_without_the_service_that_reaches_them_are_found(healthy, cli):
    healthy.put(bmc("n1"))
    ((check, text, _),) = await found(cli)
    assert (check, text) == ("BMCs", "there are NodeBMCs, and no ready pod of the out-of-band service")


async def test_bmcs_that_may_not_be_listed_are_unchecked(healthy, cli):
    healthy.faults.add(Respond(403), path="/nodebmcs", times=None)
    _, every = await checks(cli)
    assert [each["state"] for each in every if each["check"] == "BMCs"] == ["not checked"]
