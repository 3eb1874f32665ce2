"""The chart's admission policies as rendered: where they are, what they cover. Needs Helm and no cluster."""

import json

import pytest
from tests.chart import CHART, POOL, RESOURCE_MANAGER, VEN, Helm, HelmError, find

from joulie_api.permissions import SERVICES

POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
_READ = {"get", "list", "watch"}


def kinds(manifests):
    return {each["kind"] for each in manifests}


def writes(grants):
    return {(grant.group, name) for grant in grants if not _READ.issuperset(grant.verbs) for name in grant.names}


def covered(policy):
    found = policy["spec"]["matchConstraints"]["resourceRules"]
    assert all(rule["operations"] == ["CREATE", "UPDATE", "DELETE"] for rule in found)
    return {(group, name) for rule in found for group in rule["apiGroups"] for name in rule["resources"]}


SLEEP = {"operator": {"sleep": {"enabled": True}}}
OUT_OF_BAND = {"outofband": {"enabled": True, "secrets": ["bmc"]}}


def test_the_policies_cover_everything_that_the_roles_let_the_accounts_write(helm: Helm):
    agent, operator, out_of_band, ven = (SERVICES[each] for each in ("agent", "operator", "outofband", "ven"))
    assert not writes(agent.namespace)
    assert covered(find(helm.render({}), POLICY, "joulie-agent")) == writes(agent.cluster)
    everything = find(helm.render(RESOURCE_MANAGER), POLICY, "joulie-agent")
    assert covered(everything) == writes((*agent.cluster, *agent.resource_manager, *agent.pod_events))
    for policy in ("joulie-agent", "joulie-agent-nodes"):
        assert covered(find(helm.render(POOL), POLICY, policy)) == writes(agent.cluster)
    plain = writes(operator.cluster) | writes(operator.namespace)
    assert covered(find(helm.render({}), POLICY, "joulie-operator")) == plain
    assert covered(find(helm.render(SLEEP), POLICY, "joulie-operator")) == plain | writes(operator.sleep)
    found = covered(find(helm.render(OUT_OF_BAND), POLICY, "joulie-outofband"))
    assert found == writes(out_of_band.cluster) | writes(out_of_band.namespace)
    assert covered(find(helm.render(VEN), POLICY, "joulie-ven")) == writes(ven.everything)
    assert not writes(SERVICES["extender"].everything)


@pytest.mark.parametrize(
    "values",
    [{}, POOL, RESOURCE_MANAGER, SLEEP, OUT_OF_BAND, VEN],
    ids=["daemonset", "pool", "resource manager", "sleep", "out of band", "ven"],
)
def test_a_policy_concerns_one_account_of_its_own_release(helm: Helm, values):
    manifests = helm.render(values, release="shop", namespace="elsewhere")
    for policy in (each for each in manifests if each["kind"] == POLICY):
        (condition,) = [each for each in policy["spec"]["matchConditions"] if each["name"] == "account"]
        account = policy["metadata"]["name"].removesuffix("-nodes")
        assert condition["expression"] == f"request.userInfo.username == 'system:serviceaccount:elsewhere:{account}'"
        assert policy["spec"]["failurePolicy"] == "Fail"
        find(manifests, "ServiceAccount", account)


@pytest.mark.parametrize("values", [{}, POOL, RESOURCE_MANAGER, SLEEP, OUT_OF_BAND, VEN])
def test_no_policy_trusts_the_name_in_the_path_of_a_request(helm: Helm, values):
    for policy in (each for each in helm.render(values) if each["kind"] == POLICY):
        spec = policy["spec"]
        expressions = [each["expression"] for each in (*spec["validations"], *spec.get("variables", ()))]
        assert all(
            each.endswith("oldObject.metadata.?name.orValue('') : request.name")
            for each in expressions
            if "request.name" in each.replace("request.namespace", "")
        )


def test_every_policy_is_bound_and_denies(helm: Helm):
    manifests = helm.render({**POOL, **SLEEP, **OUT_OF_BAND, **VEN})
    bound = {each["spec"]["policyName"] for each in manifests if each["kind"] == BINDING}
    assert bound == {each["metadata"]["name"] for each in manifests if each["kind"] == POLICY}
    assert all(each["spec"]["validationActions"] == ["Deny"] for each in manifests if each["kind"] == BINDING)


def test_a_value_for_each_service_turns_its_policies_off(helm: Helm):
    everything = {**RESOURCE_MANAGER, **SLEEP, **OUT_OF_BAND, **VEN}
    for service, policies in (
        ("agent", {"joulie-agent"}),
        ("operator", {"joulie-operator", "joulie-restore"}),
        ("outofband", {"joulie-outofband"}),
        ("ven", {"joulie-ven"}),
    ):
        on = {each["metadata"]["name"] for each in helm.render(everything) if each["kind"] == POLICY}
        off = {**everything, service: {**everything[service], "admissionPolicy": {"enabled": False}}}
        left = {(each["kind"], each["metadata"]["name"]) for each in helm.render(off)}
        assert {name for kind, name in left if kind == POLICY} == on - policies
        assert {name for kind, name in left if kind == BINDING} == on - policies
    disabled = {each["metadata"]["name"] for each in helm.render({"agent": {"enabled": False}})}
    assert "joulie-agent" not in disabled


def test_the_ven_is_limited_to_its_power_domain_where_the_values_state_it(helm: Helm):
    def rule(values):
        spec = find(helm.render({"ven": VEN["ven"] | values}), POLICY, "joulie-ven")["spec"]
        return [each["expression"] for each in spec["validations"] if "spec.domain" in each["expression"]]

    assert rule({}) == ['object == null || object.spec.domain == "site"']
    elsewhere = {"name": "POWER_DOMAIN", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}
    assert rule({"extraEnv": [elsewhere]}) == []


def test_an_api_server_that_does_not_serve_policies_gets_none_and_the_notes_say_so(helm: Helm):
    rendered = helm.run("template", "joulie", str(CHART))
    assert POLICY not in rendered
    assert "agents can write the objects of every node" in helm.notes({})


OUTSIDE = {
    "joulie.io/managed=true": [("joulie.io/managed", "NotIn", ["true"])],
    "rack in (a, b),zone!=z": [("rack", "NotIn", ["a", "b"]), ("zone", "In", ["z"])],
    "gpu,!old , role notin (infra)": [
        ("gpu", "DoesNotExist", None),
        ("old", "Exists", None),
        ("role", "In", ["infra"]),
    ],
    "a==b,c = ": [("a", "NotIn", ["b"]), ("c", "NotIn", [""])],
}


@pytest.mark.parametrize(("selector", "outside"), OUTSIDE.items(), ids=OUTSIDE)
def test_nodes_outside_of_the_pools_selector_are_selected_by_the_opposite_of_each_requirement(
    helm: Helm, selector, outside
):
    manifests = helm.render({"agent": {"mode": "pool", "pool": {"nodeSelector": selector}}})
    bindings = [each for each in manifests if each["kind"] == BINDING and "paramRef" in each["spec"]]
    found = [each["spec"]["paramRef"]["selector"]["matchExpressions"] for each in bindings]
    assert [(each["key"], each["operator"], each.get("values")) for (each,) in found] == outside
    assert {each["spec"]["paramRef"]["parameterNotFoundAction"] for each in bindings} == {"Allow"}


def test_a_selector_that_the_policy_cannot_use_is_an_error_that_names_the_way_out(helm: Helm):
    values = {"agent": {"mode": "pool", "pool": {"nodeSelector": "cores>5"}}}
    with pytest.raises(HelmError, match=r'cannot use "cores>5".* agent\.admissionPolicy\.enabled'):
        helm.render(values)
    values["agent"]["admissionPolicy"] = {"enabled": False}
    assert json.dumps(helm.render(values)).count("cores>5") == 1
