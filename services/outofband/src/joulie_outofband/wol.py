"""Wake-on-LAN: a packet that powers a server on, and nothing that answers.

The power state is never known, and there is no way to power off. Source: AMD, "Magic Packet Technology", white paper
20213 (six bytes 0xFF and sixteen times the MAC address).
"""

import socket
from typing import Final

from joulie_core.kinds.node_bmc import BmcCapability, PowerState
from joulie_outofband.bmc import BmcReport, PowerLimit
from joulie_outofband.endpoint import Endpoint
from joulie_outofband.reasons import BmcError, BmcReason

#: The discard port: no program of the server needs to listen.
DEFAULT_PORT: Final = 9
_ON: Final = "On"


def magic_packet(mac: str) -> bytes:
    """Return the packet for a MAC address such as `52:54:00:12:34:56`."""
    return b"\xff" * 6 + bytes.fromhex(mac.replace(":", "")) * 16


class WolServer:
    """A server that can be woken; `endpoint` has the broadcast address of its network."""

    def __init__(self, endpoint: Endpoint, mac: str) -> None:
        self._target = (endpoint.host, DEFAULT_PORT if endpoint.port is None else endpoint.port)
        self._mac = mac

    async def report(self) -> BmcReport:
        """Return that nothing is known."""
        capability = BmcCapability(readable=False, cappable=False, reset_types=(_ON,))
        return BmcReport(PowerState.UNKNOWN, None, None, None, capability, answers=False)

    async def limit(self) -> PowerLimit | None:
        """Return None: there is none."""
        return None

    async def set_limit(self, watts: float | None) -> None:  # noqa: ARG002
        """Raise BmcError: there is no limit."""
        raise BmcError(BmcReason.NO_LIMIT, "no power limit")

    async def reset(self, kind: str) -> None:
        """Send the packet. Raises BmcError: another reset type, or the packet could not be sent."""
        if kind != _ON:
            raise BmcError(BmcReason.RESET_TYPE_MISSING, f"{kind} by Wake-on-LAN")
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
                # Not blocking: a datagram that the host cannot take now is an error, and sent again later.
                sender.setblocking(False)
                sender.sendto(magic_packet(self._mac), self._target)
        except OSError as error:
            raise BmcError(BmcReason.UNREACHABLE, f"Wake-on-LAN: {type(error).__name__}") from error

    async def close(self) -> None:
        """Do nothing: there is no connection."""
