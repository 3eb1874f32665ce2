"""The config interface: the resource manager serves it, the node agent calls it."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, Protocol
from uuid import uuid4

from joulie_containers.resource_api.proto import resource_api_pb2 as pb
from joulie_containers.resource_api.transport import ApiChannel, CallShape, serving

_SERVICE: Final = "joulie.resources.v1.Config"
_SET_CONFIG: Final = CallShape(_SERVICE, "SetConfig", pb.SetConfigRequest, pb.SetConfigReply)
_SET_ADJUSTMENTS: Final = CallShape(_SERVICE, "SetAdjustments", pb.SetAdjustmentsRequest, pb.SetAdjustmentsReply)
_SET_POWER_PROFILE: Final = CallShape(_SERVICE, "SetPowerProfile", pb.SetPowerProfileRequest, pb.Nothing)
_SET_POD_CONSENTS: Final = CallShape(_SERVICE, "SetPodConsents", pb.SetPodConsentsRequest, pb.Nothing)
_GET_STATUS: Final = CallShape(_SERVICE, "GetStatus", pb.Nothing, pb.ManagerStatus)


class ConfigService(Protocol):
    """Calls that the resource manager serves. InvalidCallError refuses one."""

    async def set_config(self, request: pb.SetConfigRequest) -> pb.SetConfigReply:
        """Apply a configuration, or none; a bad one is refused as a whole in the reply."""

    async def set_adjustments(self, request: pb.SetAdjustmentsRequest) -> pb.SetAdjustmentsReply:
        """Apply exactly these adjustments."""

    async def set_power_profile(self, request: pb.SetPowerProfileRequest) -> pb.Nothing:
        """Note the power profile of the node."""

    async def set_pod_consents(self, request: pb.SetPodConsentsRequest) -> pb.Nothing:
        """Note how much longer each pod of the node may run."""

    async def get_status(self, request: pb.Nothing) -> pb.ManagerStatus:
        """Return the state of the resource manager."""


def serve_config(path: Path, service: ConfigService, *, gid: int | None = None) -> AbstractAsyncContextManager[None]:
    """Serve the config interface on a socket; `gid` as for `serving`."""
    instance = uuid4().hex

    async def get_status(request: pb.Nothing) -> pb.ManagerStatus:
        status = pb.ManagerStatus()
        status.CopyFrom(await service.get_status(request))
        status.instance = instance
        return status

    return serving(
        path,
        {
            _SET_CONFIG: service.set_config,
            _SET_ADJUSTMENTS: service.set_adjustments,
            _SET_POWER_PROFILE: service.set_power_profile,
            _SET_POD_CONSENTS: service.set_pod_consents,
            _GET_STATUS: get_status,
        },
        gid=gid,
    )


class ConfigClient:
    """Calls the resource manager of the same pod.

    Methods raise ResourceApiUnavailableError where there is no answer in time, and ResourceApiError where a call
    was refused.
    """

    def __init__(self, path: Path) -> None:
        self._channel = ApiChannel(path)

    async def set_config(self, node_name: str, manifest: str) -> pb.SetConfigReply:
        """Send the manifest that applies to the node, as JSON; empty where none does."""
        return await self._channel.call(_SET_CONFIG, pb.SetConfigRequest(node_name=node_name, manifest=manifest))

    async def set_adjustments(self, node_name: str, adjustments: Mapping[str, str]) -> dict[str, dict[str, str]]:
        """Send all adjustments, as JSON by name.

        Returns:
            What is wrong with them: by name, then by container (`namespace/pod/container`) or the empty text for the
            whole object.
        """
        request = pb.SetAdjustmentsRequest(node_name=node_name, adjustments=adjustments)
        reply = await self._channel.call(_SET_ADJUSTMENTS, request)
        return {name: dict(each.errors) for name, each in reply.errors.items() if each.errors}

    async def set_power_profile(self, profile: str) -> None:
        """Send the power profile of the node, `performance` or `eco`."""
        await self._channel.call(_SET_POWER_PROFILE, pb.SetPowerProfileRequest(profile=profile))

    async def set_pod_consents(self, node_name: str, pods: Iterable[pb.PodConsent]) -> None:
        """Send how much longer each pod of the node may run."""
        await self._channel.call(_SET_POD_CONSENTS, pb.SetPodConsentsRequest(node_name=node_name, pods=pods))

    async def status(self) -> pb.ManagerStatus:
        """Return the state of the resource manager, with its zones."""
        return await self._channel.call(_GET_STATUS, pb.Nothing())

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()
