"""Where pods may run beside other pods: required affinity and anti-affinity between pods, and spreading over domains.

Follows the filters InterPodAffinity and PodTopologySpread of kube-scheduler, with one difference: pods that are being
deleted count. All nodes are domains, those that sleep too, as for kube-scheduler, unless a constraint honours taints.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from joulie_core.names import NodeName
from joulie_core.pod import Requirement, SelectorOperator
from joulie_core.sleep.fit import selects, tolerates
from joulie_core.sleep.model import SleepNode, SleepPod
from joulie_core.sleep.pod_terms import PodSelector, PodSpread, PodTerm

#: Kinds of pods with rules of their own that one decision is about; more take turns. Each costs milliseconds.
MAX_RULES: Final = 32


class Neighbours:
    """The pods on all nodes; `opened` are nodes without the taint of sleeping nodes, or about to be."""

    def __init__(self, nodes: Sequence[SleepNode], opened: Iterable[NodeName] = ()) -> None:
        self.nodes = nodes
        self.opened = set(opened)
        #: By identity, which equal pods share: a pod and the nodes that have it, as often as they do.
        self.pods: dict[int, tuple[SleepPod, list[SleepNode]]] = {}
        self._repelling = Repelling()
        self._rules: list[Rules] = []
        for node in nodes:
            for pod in node.pods:
                self._put(pod, node)

    def concern(self, pod: SleepPod) -> bool:
        """Return whether there are rules for a pod."""
        return bool(pod.namespace) and (pod.asks_of_others or bool(self._repelling.domains(pod)))

    def rules(self, pod: SleepPod) -> "Rules":
        """Return the rules for a pod that they concern."""
        rules = Rules(self, pod, self._repelling.domains(pod))
        self._rules.append(rules)
        return rules

    def add(self, pod: SleepPod, node: SleepNode, count: int = 1) -> None:
        """Note that pods were placed on a node."""
        if not pod.namespace:
            return
        for _ in range(count):
            self._put(pod, node)
        for rules in self._rules:
            rules.on_pod(pod, node, count)

    def open(self, node: SleepNode) -> None:
        """Note that a node is about to take pods."""
        self.opened.add(node.name)
        for rules in self._rules:
            rules.on_opened(node)

    def _put(self, pod: SleepPod, node: SleepNode) -> None:
        self.pods.setdefault(id(pod), (pod, []))[1].append(node)
        self._repelling.add(pod, node.labels)


class Repelling:
    """The domains from which pods keep others away, by what they keep away."""

    def __init__(self) -> None:
        #: By namespace (None: all) and the first required value of a label (None: any pod of the namespace).
        self._terms: dict[tuple[str | None, tuple[str, str] | None], dict[PodTerm, set[str]]] = {}

    def add(self, pod: SleepPod, labels: Mapping[str, str]) -> None:
        """Add a pod on a node with these labels."""
        for term in pod.anti_affinity:
            value = labels.get(term.topology_key)
            if value is None or term.selector.requirements is None:
                continue
            label = next((_one_value(each) for each in term.selector.requirements if _one_value(each)), None)
            for namespace in (None,) if term.selector.namespaces is None else term.selector.namespaces:
                self._terms.setdefault((namespace, label), {}).setdefault(term, set()).add(value)

    def domains(self, pod: SleepPod) -> list[tuple[str, Collection[str]]]:
        """Return topology keys, each with the values of the domains that a pod is kept away from."""
        if not self._terms:
            return []
        return [
            (term.topology_key, values)
            for namespace in (pod.namespace, None)
            for label in (*pod.labels.items(), None)
            for term, values in self._terms.get((namespace, label), {}).items()
            if term.selector.matches(pod.namespace, pod.labels)
        ]


class Rules:
    """The rules for one pod, and for pods that are alike."""

    def __init__(self, around: Neighbours, pod: SleepPod, repelled: Sequence[tuple[str, Collection[str]]]) -> None:
        self._around = around
        self._pod = pod
        #: By topology key: values of the domains that pods keep it away from.
        self._repelled: dict[str, set[str]] = {}
        for key, values in repelled:
            self._repelled.setdefault(key, set()).update(values)
        self._near = [_Domains(term.topology_key) for term in pod.affinity]
        self._far = [_Domains(term.topology_key) for term in pod.anti_affinity]
        self._even = [_EvenDomains(spread.topology_key) for spread in pod.spreads]
        #: Where pods that were placed count, by their identity.
        self._chosen: dict[int, list[_Domains]] = {}
        for node in around.nodes if pod.spreads else ():
            self.on_opened(node)
        for other, nodes in around.pods.values():
            chosen = self._selected(other)
            for node in nodes if chosen else ():
                for domains in chosen:
                    domains.count(node, 1)

    def admits(self, node: SleepNode) -> bool:
        """Return whether the pod may run on a node."""
        labels = node.labels
        if any(labels.get(key) in values for key, values in self._repelled.items()):
            return False
        if any(domains.pods(labels) for domains in self._far):
            return False
        return self._is_near(labels) and self._stays_even(labels)

    def add(self, node: SleepNode) -> None:
        """Note that the pod was placed on a node."""
        self._around.add(self._pod, node)

    def on_opened(self, node: SleepNode) -> None:
        """Note that a node may count as a part of a domain from now on."""
        if all(spread.topology_key in node.labels for spread in self._pod.spreads):
            for spread, domains in zip(self._pod.spreads, self._even, strict=True):
                if self._is_counted(spread, node):
                    domains.include(node)

    def on_pod(self, pod: SleepPod, node: SleepNode, count: int) -> None:
        """Note that other pods were placed on a node."""
        chosen = self._chosen.get(id(pod))
        if chosen is None:
            chosen = self._chosen[id(pod)] = self._selected(pod)
        for domains in chosen:
            domains.count(node, count)
        for term in pod.anti_affinity:
            value = node.labels.get(term.topology_key)
            if value is not None and _selects(term.selector, self._pod):
                self._repelled.setdefault(term.topology_key, set()).add(value)

    def _selected(self, other: SleepPod) -> list["_Domains"]:
        """Return where another pod counts."""
        pod = self._pod
        near = self._near if self._near and _selects_all(pod.affinity, other) else ()
        far = (each for term, each in zip(pod.anti_affinity, self._far, strict=True) if _selects(term.selector, other))
        even = (each for term, each in zip(pod.spreads, self._even, strict=True) if _selects(term.selector, other))
        return [*near, *far, *even]

    def _is_near(self, labels: Mapping[str, str]) -> bool:
        if any(domains.key not in labels for domains in self._near):
            return False
        if all(domains.pods(labels) for domains in self._near):
            return True
        # The first of pods that want to be together.
        return not any(domains.counts for domains in self._near) and _selects_all(self._pod.affinity, self._pod)

    def _stays_even(self, labels: Mapping[str, str]) -> bool:
        for spread, domains in zip(self._pod.spreads, self._even, strict=True):
            if spread.topology_key not in labels:
                return False
            least = domains.least(labels, spread.min_domains)
            if domains.pods(labels) + _selects(spread.selector, self._pod) - least > spread.max_skew:
                return False
        return True

    def _is_counted(self, spread: PodSpread, node: SleepNode) -> bool:
        """Return whether kube-scheduler counts the pods of a node."""
        if spread.honors_affinity and not selects(node, self._pod):
            return False
        return not spread.honors_taints or (node.name in self._around.opened and tolerates(node, self._pod))


class _Domains:
    """Counts of pods, by the value of a label of their nodes."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.counts: dict[str, int] = {}

    def count(self, node: SleepNode, number: int) -> None:
        value = node.labels.get(self.key)
        if value is not None:
            self.counts[value] = self.counts.get(value, 0) + number

    def pods(self, labels: Mapping[str, str]) -> int:
        """Return how many pods count in the domain of a node."""
        value = labels.get(self.key)
        return 0 if value is None else self.counts.get(value, 0)


class _EvenDomains(_Domains):
    """The same over domains of which the one with the fewest pods is known; only nodes count that are included."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self._included: set[NodeName] = set()
        #: How many domains have a number of pods.
        self._levels = Counter[int]()

    def include(self, node: SleepNode) -> None:
        self._included.add(node.name)
        value = node.labels[self.key]
        if value not in self.counts:
            self.counts[value] = 0
            self._levels[0] += 1

    def count(self, node: SleepNode, number: int) -> None:
        if node.name not in self._included:
            return
        before = self.counts[node.labels[self.key]]
        super().count(node, number)
        self._levels[before + number] += 1
        self._levels[before] -= 1
        if not self._levels[before]:
            del self._levels[before]

    def least(self, labels: Mapping[str, str], min_domains: int) -> int:
        """Return the fewest pods of a domain, with that of a node, which may be its first one."""
        if labels[self.key] not in self.counts or len(self.counts) < min_domains:
            return 0
        return min(self._levels)


def _selects(selector: PodSelector, pod: SleepPod) -> bool:
    return selector.matches(pod.namespace, pod.labels)


def _selects_all(terms: Iterable[PodTerm], pod: SleepPod) -> bool:
    return all(_selects(term.selector, pod) for term in terms)


def _one_value(each: Requirement) -> tuple[str, str] | None:
    return (each.key, each.values[0]) if each.operator is SelectorOperator.IN and len(each.values) == 1 else None
