"""The IPMI and DCMI messages that are used, as bytes. No I/O.

Source: IPMI 2.0, 28.2 and 28.3 (chassis commands) and table 5-2 (completion codes); DCMI 1.5, 6.6 (power management).
"""

import struct
from dataclasses import dataclass
from typing import Final

from joulie_core.kinds.node_bmc import LimitException
from joulie_outofband.reasons import BmcError, BmcReason

CHASSIS: Final = 0x00
GROUP: Final = 0x2C
_DCMI: Final = 0xDC

CHASSIS_STATUS: Final = bytes([0x01])
#: Chassis control, by the reset type of Redfish that has the same effect.
CONTROLS: Final = {"On": b"\x02\x01", "ForceOff": b"\x02\x00", "GracefulShutdown": b"\x02\x05"}
POWER_READING: Final = bytes([0x02, _DCMI, 0x01, 0x00, 0x00])
GET_LIMIT: Final = bytes([0x03, _DCMI, 0x00, 0x00])

_OK: Final = 0x00
#: Of the answer to GET_LIMIT: there is a limit, and it is not active.
_NOT_ACTIVE: Final = 0x80
_INVALID: Final = frozenset({0xC1, 0xC9})
_REASONS: Final = {
    0xC0: BmcReason.BUSY,
    0xC3: BmcReason.BUSY,
    0xD2: BmcReason.BUSY,
    0xD4: BmcReason.UNAUTHORIZED,
    0x84: BmcReason.OUT_OF_RANGE,
}
_POWER_ON: Final = 0x01
_MEASURES: Final = 0x40
_EXCEPTIONS: Final = {
    0x00: LimitException.NO_ACTION,
    0x01: LimitException.HARD_POWER_OFF,
    0x11: LimitException.LOG_EVENT_ONLY,
}
#: The highest limit that a message has room for.
MOST_WATTS: Final = float(0xFFFF)
_READING: Final = struct.Struct("<xBHHHHIIB")
_LIMIT: Final = struct.Struct("<xB2xBHI2xH")


@dataclass(frozen=True, slots=True)
class DcmiLimit:
    """A power limit with everything that a write of it carries; times as DCMI has them."""

    watts: int
    active: bool
    action: int
    correction_ms: int
    sampling_s: int

    @property
    def exception(self) -> LimitException:
        """Action of the BMC when it cannot hold the limit."""
        return _EXCEPTIONS.get(self.action, LimitException.OTHER)


#: Where the BMC answers that none was ever set: no action, a second to correct, statistics of a second.
NO_LIMIT: Final = DcmiLimit(watts=0, active=False, action=0x00, correction_ms=1000, sampling_s=1)


def accepted(answer: bytes, what: str) -> bytes:
    """Return an answer whose completion code is 0.

    Raises:
        BmcError: it is another.
    """
    code = answer[0] if answer else None
    if code == _OK:
        return answer
    reason = BmcReason.MALFORMED if code is None else _REASONS.get(code, BmcReason.REFUSED)
    raise BmcError(reason, f"{what}: {'no answer' if code is None else f'completion code 0x{code:02x}'}")


def is_powered(answer: bytes) -> bool:
    """Return the power state of a chassis status. Raises BmcError."""
    status = accepted(answer, "chassis status")
    if len(status) < 2:  # noqa: PLR2004 - completion code and state
        raise BmcError(BmcReason.MALFORMED, "chassis status: too short")
    return bool(status[1] & _POWER_ON)


def is_unknown_command(answer: bytes) -> bool:
    """Return whether the BMC does not have the command."""
    return bool(answer) and answer[0] in _INVALID


def reading_watts(answer: bytes) -> float | None:
    """Return the power now; None where the BMC does not measure, or has answered without a reading.

    The times in the answer are those of its statistics; how old the power now is, DCMI does not tell.
    """
    if is_unknown_command(answer) or len(accepted(answer, "power reading")) < _READING.size:
        return None
    _, now, _, _, _, _, _, state = _READING.unpack_from(answer)
    return float(now) if state & _MEASURES and now else None


def read_limit(answer: bytes) -> DcmiLimit | None:
    """Return the power limit; None where the BMC has none. Raises BmcError."""
    if is_unknown_command(answer):
        return None
    active = not (answer and answer[0] == _NOT_ACTIVE)
    if active:
        accepted(answer, "power limit")
    if len(answer) < _LIMIT.size:
        if active:
            raise BmcError(BmcReason.MALFORMED, "power limit: too short")
        return NO_LIMIT
    _, action, watts, correction_ms, sampling_s = _LIMIT.unpack_from(answer)
    return DcmiLimit(watts, active=active, action=action, correction_ms=correction_ms, sampling_s=sampling_s)


def set_limit(watts: int, limit: DcmiLimit) -> bytes:
    """Return the message that sets a limit and leaves its action and its times as they are."""
    return struct.pack("<BB3xBHI2xH", 0x04, _DCMI, limit.action, watts, limit.correction_ms, max(1, limit.sampling_s))


def activate(*, on: bool) -> bytes:
    """Return the message that puts the limit in force, or switches it off."""
    return bytes([0x05, _DCMI, int(on), 0x00, 0x00])
