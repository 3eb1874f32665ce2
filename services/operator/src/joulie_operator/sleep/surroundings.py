"""Pods as the decision takes them: with what decides beside which pods, and with which volumes, they may run.

Guarantees that only labels are kept that some pod's rule asks for, so that pods that are alike stay alike.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from joulie_core.pod import Term
from joulie_core.sleep import SleepPod
from joulie_core.sleep.neighbours import Repelling
from joulie_operator.sleep.pods import WatchedPod
from joulie_operator.sleep.volumes import WatchedClaim, WatchedVolume

#: Terms of a node affinity that the claims of a pod may make; of more the pod is uncertain.
_MAX_TERMS: Final = 16


class Surroundings:
    """Requirements of the pods of one moment on each other, and their volumes."""

    def __init__(
        self,
        pods: Iterable[WatchedPod],
        claims: Mapping[str, WatchedClaim],
        volumes: Mapping[str, WatchedVolume],
    ) -> None:
        self._claims, self._volumes = claims, volumes
        fits = {id(pod.fit): pod.fit for pod in pods}.values()
        self._asked = any(fit.asks_of_others for fit in fits)
        self._keys = frozenset(
            key for fit in fits for term in (*fit.affinity, *fit.anti_affinity) for key in term.selector.label_keys
        ) | {key for fit in fits for spread in fit.spreads for key in spread.label_keys}
        self._seen: dict[tuple[int, int, str], SleepPod] = {}
        self._alike: dict[tuple[int, str, tuple[tuple[str, str], ...]], SleepPod] = {}
        self._repelling = Repelling()

    def beside(self, pod: WatchedPod) -> SleepPod:
        """Return a pod with what decides beside which others it may run; equal pods are the same object."""
        if not self._asked:
            return pod.fit
        known = id(pod.fit), id(pod.labels), pod.namespace
        found = self._seen.get(known)
        if found is None:
            labels = tuple(sorted((key, value) for key, value in pod.labels.items() if key in self._keys))
            alike = id(pod.fit), pod.namespace, labels
            found = self._alike.get(alike)
            if found is None:
                found = self._alike[alike] = _resolved(pod.fit, pod.namespace, dict(labels))
            self._seen[known] = found
        return found

    def placed(self, labels: Mapping[str, str], pods: Iterable[WatchedPod]) -> tuple[SleepPod, ...]:
        """Take note of the pods on a node with these labels; return them, or none where no pod asks for others."""
        found = tuple(self.beside(pod) for pod in pods) if self._asked else ()
        for pod in found:
            if pod.anti_affinity:
                self._repelling.add(pod, labels)
        return found

    def waiting(self, watched: WatchedPod) -> SleepPod | None:
        """Return a pod that waits, with the node affinity of its volumes; None where a claim or a volume is missing."""
        pod = self.beside(watched)
        for name in watched.claims:
            claim = self._claims.get(f"{watched.namespace}/{name}")
            if claim is None:
                return None
            if claim.volume:
                volume = self._volumes.get(claim.volume)
                if volume is None:
                    return None
                pod = _mounting(pod, volume)
            else:
                # Its volume is made, or chosen, for the node that the pod gets.
                pod = replace(pod, uncertain=True)
        return pod

    def moved(self, watched: WatchedPod) -> SleepPod | None:
        """Return a pod as it has to be placed elsewhere; None where it is not known what has room for it."""
        beside = self.beside(watched)
        if beside.asks_of_others or self._repelling.domains(beside):
            return None
        claims = (self._claims.get(f"{watched.namespace}/{name}") for name in watched.claims)
        if any(claim is None or self._is_local(claim) for claim in claims):
            return None
        pod = self.waiting(watched)
        return None if pod is None or pod.uncertain else pod

    def _is_local(self, claim: WatchedClaim) -> bool:
        volume = self._volumes.get(claim.volume)
        return volume is None or volume.local


def _resolved(pod: SleepPod, namespace: str, labels: dict[str, str]) -> SleepPod:
    return replace(
        pod,
        namespace=namespace,
        labels=labels,
        affinity=tuple(term.seen_from(namespace) for term in pod.affinity),
        anti_affinity=tuple(term.seen_from(namespace) for term in pod.anti_affinity),
        spreads=tuple(spread.seen_from(namespace, labels) for spread in pod.spreads),
    )


def _mounting(pod: SleepPod, volume: WatchedVolume) -> SleepPod:
    terms = _both(pod.required_terms, volume.required_terms)
    if terms is not None and len(terms) > _MAX_TERMS:
        return replace(pod, uncertain=True)
    return replace(pod, required_terms=terms)


def _both(one: tuple[Term, ...] | None, other: tuple[Term, ...] | None) -> tuple[Term, ...] | None:
    """Return terms that hold where one of each does."""
    if one is None or other is None:
        return one if other is None else other
    return tuple(
        Term(a.expressions + b.expressions, a.fields + b.fields)
        for a in one
        for b in other
        # A term without any expression or field holds nowhere.
        if (a.expressions or a.fields) and (b.expressions or b.fields)
    )
