"""The parts of a Kubernetes Pod that Joulie reads.

A view made of values: the Kubernetes client and the extender decode into it, the demand classifier and the power
estimator take it. Quantities stay as they are written; `joulie_core.quantity` reads them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from joulie_core.names import NodeName


class SelectorOperator(StrEnum):
    """Operators of a node selector requirement."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression of a node selector term, over a label key."""

    key: str
    operator: SelectorOperator
    values: tuple[str, ...] = ()

    def holds(self, value: str | None) -> bool:
        """Return what Kubernetes does with a node's value of the label, None where the node has none."""
        match self.operator:
            case SelectorOperator.IN:
                return value is not None and value in self.values
            case SelectorOperator.NOT_IN:
                # A missing label satisfies NotIn.
                return value not in self.values
            case SelectorOperator.EXISTS:
                return value is not None
            case SelectorOperator.DOES_NOT_EXIST:
                return value is None
            case SelectorOperator.GT | SelectorOperator.LT:
                return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        # Integers are compared, and anything else does not match.
        number, bound = _integer(value or ""), _integer(self.values[0] if self.values else "")
        if number is None or bound is None:
            return False
        return number > bound if self.operator is SelectorOperator.GT else number < bound


def _integer(text: str) -> int | None:
    """Return a whole number of 64 bits, as Kubernetes reads one; None for any other text."""
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


#: 64 bits have 19 digits; more are zeros in front, or too large.
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,64}")
#: The only field of a Node that Kubernetes knows in a node selector term.
NAME_FIELD: Final = "metadata.name"


@dataclass(frozen=True, slots=True)
class Term:
    """One node selector term: all expressions and all fields must hold.

    `fields` never concern labels; they are for decisions that know the names of nodes.
    """

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def holds(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return what Kubernetes does with a node of this name and these labels."""
        # A term without any expression or field matches no node.
        if not self.expressions and not self.fields:
            return False
        return all(each.holds(labels.get(each.key)) for each in self.expressions) and all(
            each.holds(name if each.key == NAME_FIELD else None) for each in self.fields
        )


@dataclass(frozen=True, slots=True)
class Container:
    """Resource requests and limits of one container, quantities as written."""

    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    #: Requests that the kubelet has allocated and those in force, as the status has them: other ones than `requests`
    #: while the container is being resized in place.
    held: tuple[Mapping[str, str], ...] = ()
    #: True for an init container that keeps running (a sidecar, `restartPolicy: Always`).
    sidecar: bool = False


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A claim of a pod for devices, as the pod names it; claims live in the pod's namespace."""

    #: The ResourceClaim: given by the pod's author, or made for the pod from the template; None until it is made.
    claim: str | None = None
    #: The ResourceClaimTemplate; None where the claim itself is given.
    template: str | None = None


@dataclass(frozen=True, slots=True)
class Pod:
    """One Kubernetes Pod."""

    name: str
    namespace: str = "default"
    uid: str = ""
    resource_version: str = ""
    node_name: NodeName | None = None
    #: Pending, Running, Succeeded, Failed or Unknown.
    phase: str = "Pending"
    deleting: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    #: Terms of the required node affinity, ORed; None where the pod has no required node affinity.
    required_terms: tuple[Term, ...] | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    #: Requests of the pod as a whole (`spec.resources`), beside those of its containers.
    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    overhead: Mapping[str, str] = field(default_factory=dict)
    claims: tuple[PodClaim, ...] = ()
    #: When the kubelet accepted it (`status.startTime`), RFC 3339 as written; None before, or where it was not read.
    start_time: str | None = None

    @property
    def key(self) -> str:
        """`namespace/name`, the key of a pod in a watch store."""
        return f"{self.namespace}/{self.name}"

    @property
    def active(self) -> bool:
        """Whether the pod may still run or is running (neither Succeeded nor Failed)."""
        return self.phase not in ("Succeeded", "Failed")
