"""`GET /debug/placements`: where each container runs and why, for people."""

from typing import Any, Protocol

import msgspec
from aiohttp import web

from joulie_containers.resources.configuration import Configuration
from joulie_containers.resources.interrupts import InterruptController
from joulie_containers.resources.metrics import ObservedManager
from joulie_containers.resources.pod_consents import PodConsents
from joulie_containers.resources.values import ContainerValues
from joulie_core.class_caps.core_limits import CoreLimit
from joulie_core.containers.container import ContainerId
from joulie_core.containers.idset import IdSet


class DescribedManager(ObservedManager, Protocol):
    """Resource manager, as far as it is described."""

    @property
    def configuration(self) -> Configuration:
        """The configuration in force."""

    @property
    def pod_consents(self) -> PodConsents:
        """The slowdown that pods allow."""

    @property
    def interrupts(self) -> InterruptController:
        """The CPUs of interrupts."""


class PlacementsDebug:
    """The endpoint."""

    def __init__(self, manager: DescribedManager) -> None:
        self._manager = manager

    def routes(self) -> list[web.RouteDef]:
        """Return the endpoint."""
        return [web.get("/debug/placements", self.placements)]

    async def placements(self, _request: web.Request) -> web.Response:
        """Return configuration, zones, containers and CPU classes."""
        return web.Response(body=msgspec.json.encode(self.describe()), content_type="application/json")

    def describe(self) -> dict[str, Any]:
        """Return the same as values of JSON; sets of ids in the list format of the kernel."""
        engine, configuration = self._manager.engine, self._manager.configuration
        active, state = configuration.active, self._manager.runtime_state
        return {
            "runtime": {
                "registered": state.registered,
                "name": state.runtime.name if state.runtime else None,
                "version": state.runtime.version if state.runtime else None,
                "problem": state.failure or None,
            },
            "configuration": {
                "source": active.source.value if active else None,
                "manifest": active.manifest if active else None,
                "ignored": active.ignored if active else [],
                "problem": configuration.problem,
            },
            "zones": [
                {
                    "name": zone.name,
                    "kind": zone.kind,
                    "parent": zone.parent,
                    "cpus": str(zone.cpus),
                    "sharedIdleCpus": str(zone.shared_idle),
                    "memory": str(zone.memory),
                    "capacityMilli": zone.capacity_milli,
                    "allocatableMilli": zone.allocatable_milli,
                    "availableMilli": zone.available_milli,
                    "containers": zone.containers,
                    "attributes": dict(zone.attributes),
                }
                for zone in engine.zones
            ],
            "containers": [self._container(name) for name in sorted(engine.containers)],
            "cpuClasses": {name: str(cpus) for name, cpus in engine.cpu_classes.items()},
            "cpuClassesProblem": self._manager.classes.shortfall,
            "interrupts": self._interrupts(),
            "coreLimits": self._core_limits(),
            "podConsents": {"told": self._manager.pod_consents.told, "current": self._manager.pod_consents.current},
        }

    def _core_limits(self) -> list[dict[str, Any]]:
        enforced = self._manager.core_enforcement
        set_khz = {} if enforced is None else enforced.limited
        found = {each.cpus: each for each in self._manager.core_limits.state.limits}
        shown = [_core_limit(each, set_khz.get(cpus)) for cpus, each in found.items() if each.holders]
        # Those of groups that are gone: they are still to be lifted.
        return shown + [{"cpus": str(cpus), "setKhz": khz} for cpus, khz in set_khz.items() if cpus not in found]

    def _interrupts(self) -> dict[str, Any]:
        interrupts = self._manager.interrupts
        return {
            "claims": [{"patterns": claim.patterns, "cpus": str(claim.cpus)} for claim in interrupts.wanted.claims],
            "sinks": str(interrupts.wanted.sinks),
            "isolated": str(interrupts.wanted.isolated),
            "moved": interrupts.report.moved,
            "problem": interrupts.problem,
        }

    def _container(self, name: ContainerId) -> dict[str, Any]:
        engine = self._manager.engine
        info, placement = engine.containers[name], engine.placements.get(name)
        resources = info.resources
        return {
            "id": name,
            "namespace": info.pod.namespace,
            "pod": info.pod.name,
            "name": info.name,
            "qos": info.qos.value,
            "cpuRequestMilli": resources.cpu_request_milli,
            "cpuLimitMilli": resources.cpu_limit_milli,
            "memoryRequestBytes": resources.memory_request_bytes,
            "memoryLimitBytes": resources.memory_limit_bytes,
            "zone": placement.zone if placement else None,
            "exclusiveCpus": str(placement.exclusive) if placement else None,
            "wanted": _values(engine.ledger.wanted(name)),
            "inForce": _values(engine.ledger.in_force(name)),
            "pending": name in engine.ledger.pending,
        }


def _core_limit(found: CoreLimit, set_khz: int | None) -> dict[str, Any]:
    frequencies = found.frequencies
    return {
        "cpus": str(found.cpus),
        "containers": found.holders,
        "reason": found.reason,
        "consents": found.consents,
        "limitKhz": found.limit_khz,
        "setKhz": set_khz,
        "ceilingKhz": frequencies.ceiling_khz if frequencies else None,
        "highestKhz": frequencies.highest_khz if frequencies else None,
    }


def _values(values: ContainerValues) -> dict[str, Any]:
    return {
        "cpus": _list(values.cpus),
        "memory": _list(values.memory),
        "cpuShares": values.cpu_shares,
        "cpuQuotaUs": values.cpu_quota_us,
        "memoryLimitBytes": values.memory_limit_bytes,
    }


def _list(ids: IdSet | None) -> str | None:
    return None if ids is None else str(ids)
