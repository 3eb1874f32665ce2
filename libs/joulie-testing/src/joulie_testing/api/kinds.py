"""Kinds that the in-process API server serves, and their differences.

A kind is served if it is in `SERVED` or if its CustomResourceDefinition was written to the server. Only differences
that clients can notice are described: whether status is a subresource, whether a write without a resourceVersion is
allowed, which fields a fieldSelector may name.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

JOULIE_GROUP = "joulie.io"


@dataclass(frozen=True, slots=True)
class ServedKind:
    """One resource type and the rules the API server applies to it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = False
    has_status: bool = False
    """Status is a subresource: spec writes ignore it and `/status` writes touch nothing else."""
    custom: bool = False
    """A custom resource: generation counts, no strategic merge, list items carry apiVersion and kind."""
    unconditional_update: bool = False
    """A PUT without metadata.resourceVersion is accepted."""
    selectable: tuple[tuple[str, ...], ...] = ()
    """Paths that a fieldSelector may name besides metadata.name and metadata.namespace."""

    @property
    def api_version(self) -> str:
        """`v1` for the core group, else `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def prefix(self) -> bytes:
        """The first bytes of every serialized object of this kind, up to the first field of its own."""
        return f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode()

    def key(self, name: str, namespace: str | None) -> str:
        """Return the key of an object: `namespace/name`, or the name of a cluster-scoped one."""
        return f"{namespace}/{name}" if self.namespaced else name


def _joulie(plural: str, kind: str) -> ServedKind:
    return ServedKind(JOULIE_GROUP, "v1alpha1", plural, kind, has_status=True, custom=True)


SERVED: tuple[ServedKind, ...] = (
    ServedKind("", "v1", "namespaces", "Namespace", has_status=True, unconditional_update=True),
    ServedKind(
        "",
        "v1",
        "nodes",
        "Node",
        has_status=True,
        unconditional_update=True,
        selectable=(("spec", "unschedulable"),),
    ),
    ServedKind(
        "",
        "v1",
        "pods",
        "Pod",
        namespaced=True,
        has_status=True,
        unconditional_update=True,
        selectable=(("spec", "nodeName"), ("status", "phase"), ("spec", "schedulerName")),
    ),
    ServedKind(
        "",
        "v1",
        "events",
        "Event",
        namespaced=True,
        unconditional_update=True,
        selectable=(
            ("involvedObject", "kind"),
            ("involvedObject", "name"),
            ("reason",),
            ("type",),
            ("reportingComponent",),
        ),
    ),
    ServedKind(
        "",
        "v1",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        namespaced=True,
        has_status=True,
        unconditional_update=True,
    ),
    ServedKind("", "v1", "persistentvolumes", "PersistentVolume", has_status=True, unconditional_update=True),
    ServedKind("", "v1", "services", "Service", namespaced=True, has_status=True, unconditional_update=True),
    ServedKind("", "v1", "configmaps", "ConfigMap", namespaced=True, unconditional_update=True),
    ServedKind("", "v1", "secrets", "Secret", namespaced=True, unconditional_update=True),
    ServedKind("apps", "v1", "daemonsets", "DaemonSet", namespaced=True, has_status=True, unconditional_update=True),
    ServedKind("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True),
    ServedKind("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", unconditional_update=True),
    ServedKind(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        has_status=True,
    ),
    _joulie("nodehardwares", "NodeHardware"),
    _joulie("nodepowerprofiles", "NodePowerProfile"),
    _joulie("telemetryprofiles", "TelemetryProfile"),
    _joulie("nodetwins", "NodeTwin"),
    _joulie("balloonspolicies", "BalloonsPolicy"),
    _joulie("topologyawarepolicies", "TopologyAwarePolicy"),
    _joulie("templatepolicies", "TemplatePolicy"),
    _joulie("adjustments", "Adjustment"),
    _joulie("nodebmcs", "NodeBMC"),
    _joulie("nodesleeppolicies", "NodeSleepPolicy"),
    _joulie("powerdomains", "PowerDomain"),
    _joulie("nodepowerbudgets", "NodePowerBudget"),
    _joulie("powerevents", "PowerEvent"),
)


def kinds_of_definition(definition: Mapping[str, Any]) -> Iterator[ServedKind]:
    """Yield the kinds of a CustomResourceDefinition, one for each served version."""
    spec = definition["spec"]
    for version in spec["versions"]:
        if version.get("served", True):
            yield ServedKind(
                spec["group"],
                version["name"],
                spec["names"]["plural"],
                spec["names"]["kind"],
                namespaced=spec.get("scope") == "Namespaced",
                has_status="status" in version.get("subresources", {}),
                custom=True,
            )
