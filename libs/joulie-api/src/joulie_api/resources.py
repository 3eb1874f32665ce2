"""The API resources that Joulie uses, and their paths. No I/O.

Source: Kubernetes API conventions (core group under /api/v1, every other under /apis/GROUP/VERSION).
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

_JOULIE_GROUP: Final = "joulie.io"
_JOULIE_VERSION: Final = "v1alpha1"


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource of the API: `plural` is its name in paths, `kind` its name in objects."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """`group/version`, or `version` alone in the core group: the `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """`plural.group`, or `plural` in the core group: as RBAC rules and log lines name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def collection_path(self, namespace: str | None = None) -> str:
        """Return the path of the collection; without `namespace`, in all namespaces.

        Raises:
            ValueError: a namespace is given for a cluster-scoped resource.
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if namespace is None:
            return f"{root}/{self.plural}"
        if not self.namespaced:
            raise ValueError(f"{self.full_name} is cluster-scoped; namespace {namespace!r} is not allowed")
        return f"{root}/namespaces/{quote(namespace, safe='')}/{self.plural}"

    def object_path(self, name: str, namespace: str | None = None, subresource: str | None = None) -> str:
        """Return the path of one object or of its `subresource`.

        Raises:
            ValueError: the resource is namespaced and no namespace is given.
        """
        if self.namespaced and namespace is None:
            raise ValueError(f"{self.full_name} {name!r} needs a namespace")
        path = f"{self.collection_path(namespace)}/{quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path


NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
PODS: Final = Resource("", "v1", "pods", "Pod", namespaced=True)
EVENTS: Final = Resource("", "v1", "events", "Event", namespaced=True)
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
SECRETS: Final = Resource("", "v1", "secrets", "Secret", namespaced=True)
DAEMON_SETS: Final = Resource("apps", "v1", "daemonsets", "DaemonSet", namespaced=True)
PERSISTENT_VOLUMES: Final = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
PERSISTENT_VOLUME_CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True)
SERVICES: Final = Resource("", "v1", "services", "Service", namespaced=True)
CLUSTER_ROLES: Final = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
RESOURCE_CLAIMS: Final = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", namespaced=True)
RESOURCE_SLICES: Final = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False)
DEVICE_CLASSES: Final = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False)
RESOURCE_CLAIM_TEMPLATES: Final = Resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", namespaced=True
)
CRDS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)

NODE_HARDWARES: Final = Resource(_JOULIE_GROUP, _JOULIE_VERSION, "nodehardwares", "NodeHardware", namespaced=False)
NODE_POWER_PROFILES: Final = Resource(
    _JOULIE_GROUP, _JOULIE_VERSION, "nodepowerprofiles", "NodePowerProfile", namespaced=False
)
TELEMETRY_PROFILES: Final = Resource(
    _JOULIE_GROUP, _JOULIE_VERSION, "telemetryprofiles", "TelemetryProfile", namespaced=False
)
NODE_TWINS: Final = Resource(_JOULIE_GROUP, _JOULIE_VERSION, "nodetwins", "NodeTwin", namespaced=False)
BALLOONS_POLICIES: Final = Resource(
    _JOULIE_GROUP, _JOULIE_VERSION, "balloonspolicies", "BalloonsPolicy", namespaced=False
)
TOPOLOGY_AWARE_POLICIES: Final = Resource(
    _JOULIE_GROUP, _JOULIE_VERSION, "topologyawarepolicies", "TopologyAwarePolicy", namespaced=False
)
TEMPLATE_POLICIES: Final = Resource(
    _JOULIE_GROUP, _JOULIE_VERSION, "templatepolicies", "TemplatePolicy", namespaced=False
)
ADJUSTMENTS: Final = Resource(_JOULIE_GROUP, _JOULIE_VERSION, "adjustments", "Adjustment", namespaced=False)
NODE_BMCS: Final = Resource(_JOULIE_GROUP, _JOULIE_VERSION, "nodebmcs", "NodeBMC", namespaced=False)
NODE_SLEEP_POLICIES: Final = Resource(
    _JOULIE_GROUP, _JOULIE_VERSION, "nodesleeppolicies", "NodeSleepPolicy", namespaced=False
)
NODE_POWER_BUDGETS: Final = Resource(
    _JOULIE_GROUP, _JOULIE_VERSION, "nodepowerbudgets", "NodePowerBudget", namespaced=False
)
POWER_DOMAINS: Final = Resource(_JOULIE_GROUP, _JOULIE_VERSION, "powerdomains", "PowerDomain", namespaced=False)
POWER_EVENTS: Final = Resource(_JOULIE_GROUP, _JOULIE_VERSION, "powerevents", "PowerEvent", namespaced=False)
#: Of a project of Kubernetes; not every cluster has it.
NODE_RESOURCE_TOPOLOGIES: Final = Resource(
    "topology.node.k8s.io", "v1alpha2", "noderesourcetopologies", "NodeResourceTopology", namespaced=False
)
