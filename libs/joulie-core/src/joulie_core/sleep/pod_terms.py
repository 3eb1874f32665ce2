"""Requirements of a pod on the pods beside it: required affinity and anti-affinity between pods, and spreading.

Source: Kubernetes, "Assigning Pods to Nodes" and "Pod Topology Spread Constraints". What is only preferred keeps no pod
away and is left out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from joulie_core.pod import Requirement, SelectorOperator


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Selects pods."""

    #: All must hold; None selects no pod.
    requirements: tuple[Requirement, ...] | None
    #: Namespaces of the pods; empty: that of the pod that has the selector. None: all.
    namespaces: frozenset[str] | None = frozenset()

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return whether a pod is selected."""
        if self.requirements is None or (self.namespaces is not None and namespace not in self.namespaces):
            return False
        return all(each.holds(labels.get(each.key)) for each in self.requirements)

    def seen_from(self, namespace: str) -> "PodSelector":
        """Return the selector with the namespace of the pod that has it."""
        return replace(self, namespaces=frozenset({namespace})) if self.namespaces == frozenset() else self

    @property
    def label_keys(self) -> Iterable[str]:
        """Keys of labels that decide."""
        return (each.key for each in self.requirements or ())


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Pods of the same domain: of nodes with the same value of the label `topology_key`."""

    selector: PodSelector
    topology_key: str

    def seen_from(self, namespace: str) -> "PodTerm":
        """Return the term with the namespace of the pod that has it."""
        return replace(self, selector=self.selector.seen_from(namespace))


@dataclass(frozen=True, slots=True)
class PodSpread:
    """Rule for spreading pods evenly over domains (`whenUnsatisfiable: DoNotSchedule`)."""

    selector: PodSelector
    topology_key: str
    max_skew: int = 1
    #: With fewer domains the least number of pods in one counts as 0.
    min_domains: int = 1
    #: Whether only nodes count that the pod's node selector and affinity admit.
    honors_affinity: bool = True
    #: Whether only nodes count whose taints it tolerates.
    honors_taints: bool = False
    #: Labels of which the pods that count have the same value as the pod.
    match_label_keys: tuple[str, ...] = ()

    def seen_from(self, namespace: str, labels: Mapping[str, str]) -> "PodSpread":
        """Return the constraint with the namespace and the labels of the pod that has it."""
        selector = self.selector.seen_from(namespace)
        if selector.requirements is not None:
            same = (
                Requirement(key, SelectorOperator.IN, (labels[key],)) for key in self.match_label_keys if key in labels
            )
            selector = replace(selector, requirements=(*selector.requirements, *same))
        return replace(self, selector=selector, match_label_keys=())

    @property
    def label_keys(self) -> Iterable[str]:
        """Keys of labels that decide."""
        return (*self.selector.label_keys, *self.match_label_keys)
