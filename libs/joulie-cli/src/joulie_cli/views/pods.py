"""Views of the pods of Joulie's services, as the chart labels them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from joulie_api.wire.metadata import WireConditions, WireController, WireMeta
from joulie_cli.views import make_decoder

#: Label selector of all pods of Joulie.
SELECTOR: Final = "app.kubernetes.io/name=joulie"
#: The label with the component.
COMPONENT: Final = "app.kubernetes.io/component"
EXTENDER_SELECTOR: Final = f"{SELECTOR},{COMPONENT}=extender"
COMPONENTS: Final = ("operator", "agent", "extender")
_DIGEST: Final = "@"
_MAIN: Final = {"agent": "controller"}


class _Meta(WireMeta):
    owner_references: list[WireController] | None = None


class _Container(msgspec.Struct):
    name: str = ""
    image: str = ""
    command: list[str] | None = None
    args: list[str] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    containers: list[_Container] | None = None


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec | None = None
    status: WireConditions | None = None


@dataclass(frozen=True, slots=True)
class ServicePod:
    """One pod of a service."""

    name: str
    namespace: str
    component: str
    node: str
    ready: bool
    #: Tag of the service's image; empty where it is named by digest.
    version: str
    #: Kind of the object that made it, such as DaemonSet.
    owner: str = ""


@dataclass(frozen=True, slots=True)
class ServiceHealth:
    """The pods of one service, counted."""

    pods: int
    ready: int
    namespaces: tuple[str, ...]
    versions: tuple[str, ...]


def _service_pod(wire: _Pod) -> ServicePod:
    meta, spec, status = wire.metadata, wire.spec or _Spec(), wire.status or WireConditions()
    component = (meta.labels or {}).get(COMPONENT, "")
    owners = meta.owner_references or []
    return ServicePod(
        name=meta.name,
        namespace=meta.namespace,
        component=component,
        node=spec.node_name,
        ready=status.holds("Ready") is True and meta.deletion_timestamp is None,
        version=_version(spec.containers or (), _MAIN.get(component, component)),
        owner=owners[0].kind if owners else "",
    )


def _command(wire: _Pod) -> Sequence[str]:
    containers = (wire.spec.containers if wire.spec else None) or ()
    return [part for each in containers for part in (*(each.command or ()), *(each.args or ()))]


def health(pods: Iterable[ServicePod], component: str) -> ServiceHealth:
    """Count the pods of one service."""
    found = [pod for pod in pods if pod.component == component]
    return ServiceHealth(
        pods=len(found),
        ready=sum(pod.ready for pod in found),
        namespaces=tuple(sorted({pod.namespace for pod in found})),
        versions=tuple(sorted({pod.version for pod in found if pod.version})),
    )


decode_service_pod: Final = make_decoder(_Pod, "Pod", _service_pod)
#: Commands and arguments of all containers of a pod.
decode_command: Final = make_decoder(_Pod, "Pod", _command)


def _version(containers: Sequence[_Container], name: str) -> str:
    image = next((each.image for each in containers if each.name == name), "")
    if _DIGEST in image:
        return ""
    # A registry may have a port: only a colon behind the last slash begins a tag.
    return image.rpartition("/")[2].partition(":")[2]
