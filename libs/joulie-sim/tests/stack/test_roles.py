"""The roles of the services and their bindings."""

import pytest

from joulie_sim.stack.roles import bindings, service_roles

SERVICES = ("joulie-operator", "joulie-agent", "joulie-extender", "joulie-outofband", "joulie-ven", "joulie-sim")


def rules(user):
    return [
        rule
        for role in service_roles("joulie-system")
        if role["metadata"]["name"].startswith(user)
        for rule in role["rules"]
    ]


@pytest.mark.parametrize("user", SERVICES)
def test_every_service_has_a_role_and_a_binding_for_each(user):
    roles = [role for role in service_roles("joulie-system") if role["metadata"]["name"].startswith(user)]
    found = bindings(service_roles("joulie-system"), user)
    assert roles
    assert [binding["roleRef"]["kind"] for binding in found] == [role["kind"] for role in roles]
    assert all(binding["subjects"][0]["name"] == user for binding in found)


@pytest.mark.parametrize("user", SERVICES)
def test_no_role_contains_a_wildcard(user):
    for rule in rules(user):
        assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]


def test_secrets_and_leases_are_accessible_in_one_namespace_only():
    for role in service_roles("services"):
        resources = {resource for rule in role["rules"] for resource in rule["resources"]}
        if resources & {"secrets", "leases"}:
            assert role["kind"] == "Role"
            assert role["metadata"]["namespace"] == "services"


def test_the_extender_has_read_permissions_only():
    assert {verb for rule in rules("joulie-extender") for verb in rule["verbs"]} == {"list", "watch"}
