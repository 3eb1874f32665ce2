"""What the roles allow, read as the API server reads them."""

from dataclasses import dataclass

from joulie_sim.stack.permissions import denied

TWINS = "/apis/joulie.io/v1alpha1/nodetwins/n1"


@dataclass(frozen=True)
class Asked:
    verb: str
    path: str
    subresource: str = ""


def test_what_a_role_allows_is_not_denied():
    leases = Asked("replace", "/apis/coordination.k8s.io/v1/namespaces/joulie-system/leases/joulie-operator")
    assert denied("joulie-operator", [Asked("apply", TWINS), Asked("patch", "/api/v1/nodes/n1"), leases]) == []
    assert denied("joulie-agent", [Asked("get", "/api/v1/namespaces/joulie-system/secrets/bmc")]) == []


def test_what_no_role_allows_is_named():
    assert denied("joulie-agent", [Asked("apply", TWINS), Asked("list", "/api/v1/pods")]) == [
        "create nodetwins.joulie.io",
        "list pods",
        "patch nodetwins.joulie.io",
    ]


def test_a_status_is_a_resource_of_its_own_and_cannot_be_created():
    status = Asked("apply", f"{TWINS}/status", "status")
    assert denied("joulie-operator", [status]) == []
    assert denied("joulie-agent", [status]) == ["patch nodetwins/status.joulie.io"]
