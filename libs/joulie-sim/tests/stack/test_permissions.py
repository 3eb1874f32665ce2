"""Evaluation of roles, as the API server does it."""

from dataclasses import dataclass

from joulie_sim.stack.permissions import denied

TWINS = "/apis/joulie.io/v1alpha1/nodetwins/n1"


@dataclass(frozen=True)
class Request:
    verb: str
    path: str
    subresource: str = ""


def test_permitted_requests_are_not_listed():
    leases = Request("replace", "/apis/coordination.k8s.io/v1/namespaces/joulie-system/leases/joulie-operator")
    assert denied("joulie-operator", [Request("apply", TWINS), Request("patch", "/api/v1/nodes/n1"), leases]) == []
    assert denied("joulie-agent", [Request("get", "/api/v1/namespaces/joulie-system/secrets/bmc")]) == []


def test_requests_that_no_role_permits_are_listed():
    assert denied("joulie-agent", [Request("apply", TWINS), Request("list", "/api/v1/services")]) == [
        "create nodetwins.joulie.io",
        "list services",
        "patch nodetwins.joulie.io",
    ]


def test_a_status_is_a_resource_of_its_own_and_cannot_be_created():
    status = Request("apply", f"{TWINS}/status", "status")
    assert denied("joulie-operator", [status]) == []
    assert denied("joulie-agent", [status]) == ["patch nodetwins/status.joulie.io"]
