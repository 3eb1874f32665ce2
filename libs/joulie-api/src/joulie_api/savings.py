"""The ledger of savings as a ConfigMap: written by the operator, read by it and by `kubectl joulie`.

Guarantees that what is read is bounded and in order, and that a later version of the form is refused
instead of misread. One key of the ConfigMap has the ledger as JSON, joules as whole numbers: a full one takes 60 to
100 kB.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_core.savings import EstimateRange, LedgerPeriod, Lever, SavingsLedger, SavingsSum
from joulie_core.savings.ledger import NO_SUM, LeverSums

#: Name of the ConfigMap.
LEDGER_NAME: Final = "joulie-savings"
#: Key of the ledger in it.
LEDGER_KEY: Final = "ledger.json"
#: Key of an earlier ledger that could not be read, and most characters of it that are kept.
SET_ASIDE_KEY: Final = "set-aside"
MOST_SET_ASIDE: Final = 128 * 1024
VERSION: Final = 1
#: Bytes of a ledger that are read; a full one has less than a fifth of it.
MOST_BYTES: Final = 512 * 1024
#: More than a thousand large clusters draw in a year.
_MOST_JOULES: Final = 1e18
#: The year 9999, in seconds since the epoch.
_MOST_SECONDS: Final = 253_370_764_800.0

_Joules = Annotated[float, msgspec.Meta(ge=-_MOST_JOULES, le=_MOST_JOULES)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=_MOST_SECONDS)]
#: Lower, middle and upper joules, and seconds that are unknown.
_Sum = tuple[_Joules, _Joules, _Joules, _Seconds]
_Sums = dict[Lever, _Sum]


class _StoredLedger(msgspec.Struct, forbid_unknown_fields=False):
    version: int
    begun: _Seconds
    until: _Seconds
    #: Sums by the number of the hour, and of the day, since the epoch.
    hours: Annotated[dict[int, _Sums], msgspec.Meta(max_length=LedgerPeriod.HOUR.kept)] = {}
    days: Annotated[dict[int, _Sums], msgspec.Meta(max_length=LedgerPeriod.DAY.kept)] = {}
    total: _Sums = {}


class _Version(msgspec.Struct, forbid_unknown_fields=False):
    version: int


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] | None = None


_CONFIG_MAPS: Final = msgspec.json.Decoder(_ConfigMap)
_VERSIONS: Final = msgspec.json.Decoder(_Version)
_LEDGERS: Final = msgspec.json.Decoder(_StoredLedger, strict=False)


def ledger_manifest(ledger: SavingsLedger, set_aside: str = "") -> dict[str, Any]:
    """Return the ConfigMap of a ledger, without its name.

    Args:
        ledger: the ledger.
        set_aside: an earlier ledger that could not be read, which is kept beside it; empty: none.
    """
    stored = _StoredLedger(
        version=VERSION,
        begun=ledger.begun_s,
        until=ledger.until_s,
        hours={number: _stored(sums) for number, sums in ledger.hours.items()},
        days={number: _stored(sums) for number, sums in ledger.days.items()},
        total=_stored(ledger.total),
    )
    kept = {SET_ASIDE_KEY: set_aside} if set_aside else {}
    return {"data": {LEDGER_KEY: msgspec.json.encode(stored).decode(), **kept}}


def read_ledger(raw: bytes) -> SavingsLedger:
    """Read the ledger of a ConfigMap.

    Raises:
        DecodeError: there is none, or it is of another version, too large, or no ledger.
    """
    text = (decode(_CONFIG_MAPS.decode, raw, "ConfigMap").data or {}).get(LEDGER_KEY)
    if text is None:
        raise DecodeError(f"not a ledger: the ConfigMap has no key {LEDGER_KEY}")
    encoded = text.encode(errors="replace")
    if len(encoded) > MOST_BYTES:
        raise DecodeError(f"not a ledger: {len(encoded)} bytes, at most {MOST_BYTES} are read")
    version = decode(_VERSIONS.decode, encoded, "ledger").version
    if version != VERSION:
        raise DecodeError(f"not a ledger: of version {version}, and version {VERSION} is read")
    stored = decode(_LEDGERS.decode, encoded, "ledger")
    ledger = SavingsLedger(
        begun_s=stored.begun,
        until_s=stored.until,
        hours=_periods(stored.hours, stored.until, LedgerPeriod.HOUR),
        days=_periods(stored.days, stored.until, LedgerPeriod.DAY),
        total=_sums(stored.total),
    )
    if ledger.begun_s > ledger.until_s:
        raise DecodeError("not a ledger: it ends before it begins")
    return ledger


def set_aside_text(raw: bytes, *, unreadable: bool) -> str:
    """Return what is to be kept under `SET_ASIDE_KEY`: an earlier one, or the ledger itself if it is `unreadable`.

    Empty where there is nothing, or where the ConfigMap cannot be read at all.
    """
    try:
        data = decode(_CONFIG_MAPS.decode, raw, "ConfigMap").data or {}
    except DecodeError:
        return ""
    key = LEDGER_KEY if unreadable and data.get(LEDGER_KEY) else SET_ASIDE_KEY
    return data.get(key, "")[:MOST_SET_ASIDE]


def _stored(sums: LeverSums) -> _Sums:
    return {
        lever: (
            float(round(each.joules.lower)),
            float(round(each.joules.middle)),
            float(round(each.joules.upper)),
            round(each.unknown_s, 1),
        )
        for lever, each in sums.items()
        if each != NO_SUM
    }


def _periods(stored: Mapping[int, _Sums], until_s: float, period: LedgerPeriod) -> dict[int, LeverSums]:
    newest = int(until_s // period.seconds)
    if any(not newest - period.kept < number <= newest for number in stored):
        raise DecodeError(f"not a ledger: a {period.value} is later than its end, or not kept")
    return {number: _sums(sums) for number, sums in sorted(stored.items())}


def _sums(stored: _Sums) -> LeverSums:
    return {lever: _sum(each) for lever, each in stored.items()}


def _sum(stored: _Sum) -> SavingsSum:
    lower, middle, upper, unknown_s = stored
    if not lower <= middle <= upper:
        raise DecodeError("not a ledger: bounds of joules are not in order")
    return SavingsSum(EstimateRange(lower, middle, upper), unknown_s)
