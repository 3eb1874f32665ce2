"""Writes the agent's objects of a node: NodeHardware, the status profile and the report in it.

The spec of a profile that a user wrote is never changed. A generated profile that was edited becomes the user's: the
agent removes its label and annotation and never writes the spec again. Creation does not force ownership, so a profile
that is created at the same moment stays. Methods raise KubeError; the caller retries at the next tick.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

import structlog

from joulie_api.apply import Applier, covers
from joulie_api.client import KubeClient
from joulie_api.errors import Conflict
from joulie_api.owners import owned_by
from joulie_api.resources import NODE_HARDWARES, NODE_POWER_BUDGETS, TELEMETRY_PROFILES, Resource
from joulie_api.wire import Metadata, Versioned, decode_kind
from joulie_core.control.telemetry_route import GENERATED_SPEC, Route, fingerprint, generated_spec, is_generated
from joulie_core.kinds.node_hardware import NodeHardware, NodeHardwareSpec, NodeHardwareStatus
from joulie_core.kinds.node_power_budget import NodePowerBudget, NodePowerBudgetStatus
from joulie_core.kinds.telemetry_profile import TelemetryProfile, TelemetryProfileSpec, TelemetryProfileStatus
from joulie_core.labels import MANAGED_BY, MANAGED_BY_AGENT
from joulie_core.names import NodeName
from joulie_core.node import Node

FIELD_MANAGER: Final = "joulie-agent"
#: Writes under way at once that do not pass through the applier.
_MAX_IN_FLIGHT: Final = 16

_decode_profile: Final = decode_kind(TelemetryProfile)
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class StatusProfile:
    """A TelemetryProfile as read. Each one holds the report of the node of its name, if there is such a node."""

    metadata: Metadata
    model: TelemetryProfile
    #: Whether it is the agent's own, unedited.
    generated: bool

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.metadata.name


def decode_status_profile(raw: bytes) -> StatusProfile:
    """Decode a TelemetryProfile.

    Raises:
        DecodeError: the object does not fit its schema.
    """
    found = _decode_profile(raw)
    generated = is_generated(found.metadata.labels, found.metadata.annotations, found.model.spec)
    return StatusProfile(found.metadata, found.model, generated)


class Publisher:
    """Writer for all nodes of one process."""

    def __init__(self, client: KubeClient, applier: Applier) -> None:
        self._client = client
        self._applier = applier
        self._slots = asyncio.Semaphore(_MAX_IN_FLIGHT)

    async def hardware(
        self, node: Node, status: NodeHardwareStatus, live: Versioned[NodeHardware] | None, now: str
    ) -> None:
        """Publish discovered hardware unless the object holds the same already."""
        known = live.model.status if live else None
        if known is not None and known.model_copy(update={"updated_at": None}) == status:
            return
        if live is None:
            body = {"metadata": owned_by(node), "spec": NodeHardwareSpec(node_name=node.name).dump()}
            self._applier.forget(NODE_HARDWARES, node.name)
            await self._applier.apply(NODE_HARDWARES, node.name, body)
        dated = status.model_copy(update={"updated_at": now}).dump()
        await self._applier.apply(NODE_HARDWARES, node.name, {"status": dated}, status=True)

    async def status_profile(self, node: Node, route: Route, live: StatusProfile | None) -> None:
        """Create the status profile if there is none; bring the spec of a generated one in line with the route."""
        spec = generated_spec(node.name, route)
        if live is None or (live.generated and live.model.spec != spec):
            await self._write_status_profile(node, spec)
        elif live.metadata.labels.get(MANAGED_BY) == MANAGED_BY_AGENT and not live.generated:
            await self._remove_marks(node.name)

    async def report(self, node: NodeName, status: TelemetryProfileStatus, live: StatusProfile | None) -> None:
        """Publish the report unless the profile holds the same already."""
        await self._status(TELEMETRY_PROFILES, node, status.dump(), live.model.status.dump() if live else {})

    async def budget(self, node: NodeName, status: NodePowerBudgetStatus, live: Versioned[NodePowerBudget]) -> None:
        """Publish what is in force of a node's power budget unless the object holds the same already."""
        await self._status(NODE_POWER_BUDGETS, node, status.dump(), live.model.status.dump())

    async def _status(self, resource: Resource, node: NodeName, status: dict[str, Any], shown: dict[str, Any]) -> None:
        body, live = {"status": status}, {"status": shown}
        if not (covers(live, body) and covers(body, live)):
            await self._applier.apply(resource, node, body, status=True, live=live)

    async def withdraw(self, node: NodeName, live: StatusProfile | None, final_status: TelemetryProfileStatus) -> None:
        """Delete the agent's objects of a node; a user's profile keeps everything but the report."""
        await self._applier.delete(NODE_HARDWARES, node)
        if live is not None and live.generated:
            await self._applier.delete(TELEMETRY_PROFILES, node)
        elif live is not None:
            await self.report(node, final_status, live)

    async def _write_status_profile(self, node: Node, spec: TelemetryProfileSpec) -> None:
        marks = {"labels": {MANAGED_BY: MANAGED_BY_AGENT}, "annotations": {GENERATED_SPEC: fingerprint(spec)}}
        body: dict[str, Any] = {
            "apiVersion": TELEMETRY_PROFILES.api_version,
            "kind": TELEMETRY_PROFILES.kind,
            "metadata": {"name": node.name, **marks, **owned_by(node)},
            "spec": spec.dump(),
        }
        async with self._slots:
            try:
                await self._client.apply(TELEMETRY_PROFILES, node.name, body, field_manager=FIELD_MANAGER, force=False)
            except Conflict as error:
                # Another manager owns a field of the spec: the profile is a user's, and the watch will deliver it.
                _log.info("profile is managed by another owner, skipping", node=node.name, error=str(error))

    async def _remove_marks(self, node: NodeName) -> None:
        marks = {"labels": {MANAGED_BY: None}, "annotations": {GENERATED_SPEC: None}}
        async with self._slots:
            await self._client.merge_patch(TELEMETRY_PROFILES, node, {"metadata": marks}, field_manager=FIELD_MANAGER)
