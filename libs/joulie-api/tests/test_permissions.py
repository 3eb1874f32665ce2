"""The table of permissions."""

import pytest

from joulie_api.permissions import SERVICES, Grant
from joulie_api.resources import LEASES, NODE_TWINS, NODES, PODS, SECRETS

WRITES = {"create", "update", "patch", "delete", "deletecollection"}


def grants(service):
    return SERVICES[service].everything


def test_a_rule_names_its_group_its_resources_and_its_verbs():
    assert Grant((NODES, PODS), ("get",)).rule() == {
        "apiGroups": [""],
        "resources": ["nodes", "pods"],
        "verbs": ["get"],
    }
    assert Grant((NODE_TWINS,), ("patch",), subresource="status").rule() == {
        "apiGroups": ["joulie.io"],
        "resources": ["nodetwins/status"],
        "verbs": ["patch"],
    }


def test_a_grant_is_about_one_group():
    with pytest.raises(ValueError, match="one API group"):
        Grant((NODES, NODE_TWINS), ("get",))


@pytest.mark.parametrize("service", SERVICES)
def test_no_grant_has_wildcards_or_repeats_another(service):
    told = [(verb, grant.group, name) for grant in grants(service) for name in grant.names for verb in grant.verbs]
    assert len(told) == len(set(told))
    assert not [each for each in told if "*" in each]


@pytest.mark.parametrize("service", SERVICES)
def test_secrets_and_leases_are_reached_in_the_services_own_namespace_only(service):
    assert not [grant for grant in SERVICES[service].cluster if {SECRETS, LEASES} & set(grant.resources)]


def test_secrets_are_read_by_name_and_by_two_services():
    found = [(service, grant) for service in SERVICES for grant in grants(service) if SECRETS in grant.resources]
    assert [(service, grant.verbs, grant.by_name) for service, grant in found] == [
        ("agent", ("get",), True),
        ("outofband", ("get",), True),
    ]


def test_the_extender_writes_nothing():
    assert not WRITES & {verb for grant in grants("extender") for verb in grant.verbs}


def test_a_node_is_changed_by_agents_only_where_the_resource_manager_is_enabled():
    agent = SERVICES["agent"]
    assert not [grant for grant in agent.cluster if {NODES} & set(grant.resources) and WRITES & set(grant.verbs)]
    assert {name for grant in agent.resource_manager for name in grant.names if NODES in grant.resources} == {
        "nodes",
        "nodes/status",
    }


def test_only_the_services_that_own_a_kind_write_it():
    writers = {
        name: {
            service
            for service in SERVICES
            for grant in grants(service)
            if name in grant.names and WRITES & set(grant.verbs)
        }
        for name in (
            "nodebmcs",
            "nodebmcs/status",
            "nodesleeppolicies",
            "nodesleeppolicies/status",
            "nodehardwares",
            "nodepowerprofiles",
            "nodetwins",
            "powerdomains",
            "powerdomains/status",
            "powerevents",
            "powerevents/status",
            "telemetryprofiles",
        )
    }
    assert writers == {
        "nodebmcs": {"operator"},
        "nodebmcs/status": {"operator", "outofband"},
        "nodesleeppolicies": set(),
        "nodesleeppolicies/status": {"operator"},
        "nodehardwares": {"agent"},
        "nodepowerprofiles": {"operator"},
        "nodetwins": {"operator"},
        "powerdomains": set(),
        "powerdomains/status": {"operator"},
        "powerevents": {"ven"},
        "powerevents/status": {"operator"},
        "telemetryprofiles": {"agent"},
    }
