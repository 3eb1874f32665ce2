"""Adjustments: changes of requests, limits and classes of running containers by objects of kind Adjustment.

A container that several adjustments concern is not changed at all. Classes reach the container policy as the
annotations that stand for them.
"""

from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from math import ceil
from typing import Any, Final

import msgspec
from pydantic import ValidationError

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_containers.resources.values import MOST_CPU_MILLI
from joulie_core.containers.annotations import DOMAIN
from joulie_core.containers.container import ContainerInfo, ContainerResources
from joulie_core.containers.expressions import matches
from joulie_core.kinds.adjustment import AdjustmentScope, AdjustmentSpec
from joulie_core.quantity import parse_quantity

_MILLI: Final = 1000


class InvalidAdjustmentError(Exception):
    """An adjustment does not fit a container; the message has the reason."""


class Adjustments:
    """The adjustments of this node.

    Args:
        node_name: for the scope of adjustments.
    """

    def __init__(self, node_name: str) -> None:
        self._node_name = node_name
        self._specs: Mapping[str, AdjustmentSpec] = {}

    def replace(self, documents: Mapping[str, str]) -> Mapping[str, str]:
        """Take all adjustments, as JSON by name; return why some are not in force, by name."""
        specs, errors = {}, {}
        for name, document in sorted(documents.items()):
            try:
                parts = decode(msgspec.json.Decoder(dict[str, Any]).decode, document.encode(), "Adjustment")
                specs[name] = AdjustmentSpec.model_validate(parts["spec"])
            except ValidationError as error:
                errors[name] = "; ".join(
                    f"{'.'.join(('spec', *map(str, each['loc'])))}: {each['msg'].removeprefix('Value error, ')}"
                    for each in error.errors(include_url=False)
                )
            except DecodeError as error:
                errors[name] = str(error)
            except KeyError as error:
                errors[name] = f"not an Adjustment: {error} is absent"
        self._specs = specs
        return errors

    def of(self, container: ContainerInfo) -> Mapping[str, AdjustmentSpec]:
        """Return the adjustments that concern a container, by name."""
        return {name: spec for name, spec in self._specs.items() if self._concerns(spec, container)}

    def problems(self, container: ContainerInfo) -> Mapping[str, str]:
        """Return why adjustments that concern a container do not change it, by their name."""
        applicable = self.of(container)
        if len(applicable) > 1:
            return {
                name: f"conflicts with {', '.join(sorted(applicable.keys() - {name}))}: the container is not changed"
                for name in applicable
            }
        problems = {}
        for name, spec in applicable.items():
            try:
                _resources(container.resources, spec)
            except InvalidAdjustmentError as error:
                problems[name] = str(error)
        return problems

    def adjusted(self, container: ContainerInfo) -> ContainerInfo:
        """Return a container with what its adjustment changes; as it is without one, or with one that does not fit."""
        applicable = self.of(container)
        if len(applicable) != 1:
            return container
        (spec,) = applicable.values()
        try:
            resources = _resources(container.resources, spec)
        except InvalidAdjustmentError:
            return container
        annotations = _annotations(container.name, spec)
        pod = container.pod
        if annotations:
            pod = replace(pod, annotations={**pod.annotations, **annotations})
        return replace(container, resources=resources, pod=pod)

    def _concerns(self, spec: AdjustmentSpec, container: ContainerInfo) -> bool:
        return not spec.scope or any(self._has(scope, container) for scope in spec.scope)

    def _has(self, scope: AdjustmentScope, container: ContainerInfo) -> bool:
        on_node = not scope.nodes or any(fnmatchcase(self._node_name, glob) for glob in scope.nodes)
        return on_node and (
            not scope.containers or any(matches(expression, container) for expression in scope.containers)
        )


def _resources(before: ContainerResources, spec: AdjustmentSpec) -> ContainerResources:
    requests, limits = spec.resources.requests, spec.resources.limits
    resources = ContainerResources(
        cpu_request_milli=_first(_milli(requests.cpu), _milli(limits.cpu), before.cpu_request_milli) or 0,
        cpu_limit_milli=_first(_milli(limits.cpu), before.cpu_limit_milli),
        memory_request_bytes=_first(_bytes(requests.memory), _bytes(limits.memory), before.memory_request_bytes) or 0,
        memory_limit_bytes=_first(_bytes(limits.memory), before.memory_limit_bytes),
    )
    most = max(resources.cpu_request_milli, resources.cpu_limit_milli or 0)
    if most > MOST_CPU_MILLI:
        raise InvalidAdjustmentError(f"{most}m CPU are more than a container can have; write what a machine has")
    if resources.cpu_limit_milli is not None and resources.cpu_request_milli > resources.cpu_limit_milli:
        raise InvalidAdjustmentError(
            f"the request of {resources.cpu_request_milli}m CPU exceeds the limit of {resources.cpu_limit_milli}m"
        )
    if resources.memory_limit_bytes is not None and resources.memory_request_bytes > resources.memory_limit_bytes:
        raise InvalidAdjustmentError(
            f"the request of {resources.memory_request_bytes} bytes exceeds the limit of {resources.memory_limit_bytes}"
        )
    return resources


def _first(*amounts: int | None) -> int | None:
    return next((amount for amount in amounts if amount is not None), None)


def _milli(amount: str | None) -> int | None:
    return None if amount is None else ceil(parse_quantity(amount) * _MILLI)


def _bytes(amount: str | None) -> int | None:
    return None if amount is None else ceil(parse_quantity(amount))


def _annotations(container: str, spec: AdjustmentSpec) -> Mapping[str, str]:
    values = {
        "rdtclass": spec.classes.rdt,
        "blockioclass": spec.classes.blockio,
        "cpu-class": spec.classes.cpu,
    }
    return {f"{key}.{DOMAIN}/container.{container}": value for key, value in values.items() if value is not None}
