"""The chart in tests: the real Helm, its rendered manifests and its messages."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from joulie_api.client import KubeClient
from joulie_api.resources import Resource

ROOT = Path(__file__).parents[1]
CHART = ROOT / "helm" / "joulie"
NAMESPACE = "joulie-system"

#: Kinds of the chart that make pods.
WORKLOADS = {"Deployment", "DaemonSet", "StatefulSet", "Job"}

Manifest = dict[str, Any]
Values = dict[str, Any]

POOL: Values = {"agent": {"mode": "pool", "pool": {"shards": 3, "nodeSelector": "rack in (a,b)"}}}
NVIDIA: Values = {"agent": {"actuator": {"nvidia": {"enabled": True, "runtimeClassName": "nvidia"}}}}
HSMP: Values = {"agent": {"actuator": {"hsmp": {"enabled": True}}}}
AMD: Values = {"agent": {"actuator": {"amd": {"enabled": True}}}}
RESOURCE_MANAGER: Values = {"agent": {"resourceManager": {"enabled": True}}}
CONTAINERS_ALONE: Values = {
    "operator": {"enabled": False},
    "extender": {"enabled": False},
    "agent": {"power": {"enabled": False}, "watchdog": {"enabled": True}, **RESOURCE_MANAGER["agent"]},
}
WATCHDOG: Values = {"agent": {"watchdog": {"enabled": True}}}
VEN: Values = {
    "ven": {
        "enabled": True,
        "credentialsSecret": "vtn",
        "env": {"VTN_URL": "https://vtn.example.org", "VTN_PROGRAM": "p", "VEN_NAME": "v", "POWER_DOMAIN": "site"},
    }
}
SLEEP_PRESET: Values = {"preset": "sleep", "outofband": {"secrets": ["bmc"]}}
EVERYTHING: Values = {
    "fullnameOverride": "power",
    "commonLabels": {"team": "green"},
    "energy": {"factors": {"pricePerKwh": 0.25, "currency": "EUR"}},
    "imagePullSecrets": [{"name": "registry"}],
    "operator": {
        "replicas": 1,
        "env": {"POLICY_TYPE": "queue_aware_v1", "ENABLE_FACILITY_METRICS": "false"},
        "extraEnv": [{"name": "TZ", "value": "UTC"}],
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"role": "infra"},
        "tolerations": [{"operator": "Exists"}],
        "podAnnotations": {"a": "b"},
        "sleep": {"enabled": True},
    },
    "agent": {
        "env": {"RECONCILE_INTERVAL": "5s"},
        "headersSecrets": ["bmc"],
        "hostNetwork": True,
        "metricsPort": 18080,
        "metricsHost": "127.0.0.1",
        "podAnnotations": {"a": "b"},
        "priorityClassName": "system-node-critical",
        "actuator": {
            "env": {"ACTUATOR_STOP_GRACE": "30"},
            "hostSysPath": "/tree/sys",
            "hostProcPath": "/tree/proc",
            "seLinuxOptions": {"type": "spc_t"},
        },
    },
    "extender": {
        "image": {"digest": "sha256:" + "0" * 64},
        "service": {"clusterIP": "10.96.0.76"},
    },
    "outofband": {"enabled": True, "secrets": ["bmc-root", "bmc-ca"], "env": {"BMC_POLL_INTERVAL": "60s"}},
    "networkPolicy": {
        "enabled": True,
        "schedulerFrom": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        "apiServer": {"ports": [6443], "to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}]},
        "agentEgress": [{"to": [{"ipBlock": {"cidr": "10.2.0.0/16"}}], "ports": [{"port": 443}]}],
        "bmcEgress": [{"to": [{"ipBlock": {"cidr": "10.3.0.0/16"}}], "ports": [{"port": 443}]}],
    },
    "uninstall": {"tolerations": [{"operator": "Exists"}], "extraEnv": [{"name": "A", "value": "b"}]},
}
#: Values that between them render everything that the chart can.
MATRIX: dict[str, Values] = {
    "defaults": {},
    "documents": {"preset": "documents"},
    "sleep": SLEEP_PRESET,
    "pool": POOL,
    "nvidia": NVIDIA,
    "amd": AMD,
    "everything": EVERYTHING,
    "agent alone": {"operator": {"enabled": False}, "extender": {"enabled": False}},
    "no agent": {"agent": {"enabled": False}},
    "resource manager": RESOURCE_MANAGER,
    "containers alone": CONTAINERS_ALONE,
    "watchdog": WATCHDOG,
    "watchdog with GPUs": {"agent": {**NVIDIA["agent"], **WATCHDOG["agent"]}},
    "ven": {**VEN, "networkPolicy": {"enabled": True}},
    "no hook": {"uninstall": {"enabled": False}},
    "network policies": {"networkPolicy": {"enabled": True}, **WATCHDOG},
}


_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
#: Where the kinds are that the chart has.
RESOURCES = {
    each.kind: each
    for each in (
        Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True),
        Resource("", "v1", "services", "Service", namespaced=True),
        Resource("", "v1", "configmaps", "ConfigMap", namespaced=True),
        Resource("apps", "v1", "deployments", "Deployment", namespaced=True),
        Resource("apps", "v1", "daemonsets", "DaemonSet", namespaced=True),
        Resource("apps", "v1", "statefulsets", "StatefulSet", namespaced=True),
        Resource("batch", "v1", "jobs", "Job", namespaced=True),
        Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True),
        Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", namespaced=True),
        Resource(_RBAC, "v1", "roles", "Role", namespaced=True),
        Resource(_RBAC, "v1", "rolebindings", "RoleBinding", namespaced=True),
        Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
        Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
        Resource(_ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False),
        Resource(
            _ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False
        ),
    )
}


class HelmError(AssertionError):
    """Helm refused; the text is what it wrote on standard error."""


@dataclass(frozen=True, slots=True)
class Helm:
    """The Helm client. `kubeconfig` is needed by what talks to a cluster only; `home` keeps its files to itself."""

    path: Path
    home: Path
    kubeconfig: Path | None = None

    def run(self, *arguments: str, timeout_s: float = 60, stdin: str = "") -> str:
        """Standard output of a command; HelmError where it fails."""
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            **{f"HELM_{kind}_HOME": str(self.home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")},
            "KUBECONFIG": str(self.kubeconfig or self.home / "no-kubeconfig"),
        }
        done = subprocess.run(
            [self.path, *arguments],
            env=env,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode != 0:
            raise HelmError(done.stderr + done.stdout)
        return done.stdout

    def lint(self, values: Mapping[str, Any]) -> None:
        """Lint the chart with values laid over its own; HelmError where Helm finds fault."""
        self.run("lint", "--strict", str(CHART), "--values", "-", stdin=json.dumps(values))

    def render(
        self, values: Mapping[str, Any], *, release: str = "joulie", namespace: str = NAMESPACE
    ) -> list[Manifest]:
        """Every object of the release, hooks included and CRDs not, for a cluster as new as those of the tests."""
        text = _rendered(self, release, namespace, json.dumps(values))
        # Parsed for each caller, who may change it, and by libyaml: PyYAML's own parser takes ten times as long.
        return [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each]

    def notes(self, values: Mapping[str, Any]) -> str:
        """What Helm prints after an installation."""
        command = ("install", "joulie", str(CHART), "--namespace", NAMESPACE, "--dry-run=client", "--values", "-")
        return self.run(*command, stdin=json.dumps(values)).partition("\nNOTES:\n")[2]


@cache
def _rendered(helm: Helm, release: str, namespace: str, values: str) -> str:
    command = ("template", release, str(CHART), "--namespace", namespace, "--values", "-")
    command += ("--api-versions", f"{_ADMISSION}/v1/ValidatingAdmissionPolicy")
    return helm.run(*command, stdin=values)


def find(manifests: Sequence[Manifest], kind: str, name: str) -> Manifest:
    """The object of a kind and name; AssertionError where there is none."""
    for each in manifests:
        if each["kind"] == kind and each["metadata"]["name"] == name:
            return each
    raise AssertionError(f"no {kind} {name} among {[(each['kind'], each['metadata']['name']) for each in manifests]}")


def pod_spec(manifest: Manifest) -> dict[str, Any]:
    """The pod's spec in a workload."""
    return manifest["spec"]["template"]["spec"]


def rules(manifests: Sequence[Manifest]) -> list[dict[str, Any]]:
    """The rules of all roles."""
    return [rule for each in manifests if each["kind"] in {"Role", "ClusterRole"} for rule in each["rules"]]


def containers(manifest: Manifest) -> dict[str, dict[str, Any]]:
    """The containers of a workload by name."""
    return {each["name"]: each for each in pod_spec(manifest)["containers"]}


def env_of(container: Mapping[str, Any]) -> dict[str, str | None]:
    """Variables of a container; None where the value comes from elsewhere."""
    return {each["name"]: each.get("value") for each in container["env"]}


async def account_token(
    client: KubeClient, account: str, namespace: str = NAMESPACE, *, pod: Manifest | None = None
) -> str:
    """A token of a service account; bound to a pod, as the kubelet requests it, it names the pod's node."""
    path = RESOURCES["ServiceAccount"].object_path(account, namespace, "token")
    spec: dict[str, Any] = {"expirationSeconds": 3600}
    if pod is not None:
        metadata = pod["metadata"]
        spec["boundObjectRef"] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata["name"],
            "uid": metadata["uid"],
        }
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return str(json.loads(await client.request("POST", path, body=body))["status"]["token"])
