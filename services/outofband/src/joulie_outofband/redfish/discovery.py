"""Discovery of one BMC by links: its system, the actions of that, its power reading and its power limit."""

import itertools
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

from joulie_core.kinds.node_bmc import LimitException
from joulie_outofband.reasons import BmcError, BmcReason
from joulie_outofband.redfish.connection import ROOT, Json, RedfishConnection
from joulie_outofband.redfish.limits import (
    ControlLimit,
    EnvironmentLimit,
    LimitResource,
    Part,
    PowerControlLimit,
    limit_exception,
    number,
    part,
    power_controls,
    text,
)

#: Members of a collection that are read; a server has fewer chassis and controls of its power.
_MOST_MEMBERS: Final = 16
#: Reset types that are kept; Redfish has 14, of at most 20 letters.
_MOST_RESET_TYPES: Final = 32
_RESET_TYPE: Final = re.compile(r"[A-Za-z0-9]{1,64}")
#: The values of ResetType in the schema Resource, the longer of two with the same beginning first.
_KNOWN_RESET_TYPES: Final = (
    *("ForceOff", "ForceOn", "ForceRestart", "FullPowerCycle", "GracefulRestart", "GracefulShutdown", "Nmi", "On"),
    *("Pause", "PowerCycle", "PushPowerButton", "Resume", "Suspend"),
)
#: Several of them without anything between, as a BMC of Supermicro has two (SYS-510T-MR, BIOS 2.0, Redfish 1.14).
_JOINED: Final = re.compile(f"(?:{'|'.join(_KNOWN_RESET_TYPES)})+")
_KNOWN: Final = re.compile("|".join(_KNOWN_RESET_TYPES))
_RESET_PARAMETER: Final = "ResetType"
_SECONDS: Final = re.compile(r"PT(?:(\d{1,6})M)?(?:(\d{1,6}(?:\.\d{1,9})?)S)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class BmcLayout:
    """Where one BMC has what; empty or None for what it does not have."""

    system: str
    reset: str
    reset_types: tuple[str, ...]
    reading: str
    interval_s: float | None
    limit: LimitResource | None
    exception: LimitException | None


async def discover(connection: RedfishConnection, system: str | None) -> BmcLayout:
    """Return the layout of a BMC.

    Raises:
        BmcError: no answer, or the BMC has several systems and `system` is None.
    """
    path = system or await _only_system(connection)
    body = (await connection.get(path)).body
    action = part(part(body, "Actions"), "#ComputerSystem.Reset")
    types = await _allowed_resets(connection, action)
    reading, interval_s, limit, exception = "", None, None, None
    for chassis in [each async for each in _chassis(connection, body)]:
        environment = await _linked(connection, chassis, "EnvironmentMetrics")
        power = await _linked(connection, chassis, "Power")
        if not reading:
            reading, interval_s = await _reading(connection, environment, power)
        if limit is None:
            limit = await _limit(connection, chassis, environment, power)
            exception = limit_exception(power[1]) if limit is not None else None
    return BmcLayout(
        system=path,
        reset=text(action.get("target")),
        reset_types=types,
        reading=reading,
        interval_s=interval_s,
        limit=limit,
        exception=exception,
    )


def reading_watts(body: Part) -> float | None:
    """Return the power reading of an EnvironmentMetrics or Power resource; None if it has none."""
    reading = number(part(body, "PowerWatts").get("Reading"))
    if reading is not None:
        return reading
    return next((number(each.get("PowerConsumedWatts")) for each in power_controls(body)), None)


async def _only_system(connection: RedfishConnection) -> str:
    found = _members((await connection.get(f"{ROOT}/Systems")).body)
    if len(found) != 1:
        raise BmcError(BmcReason.MALFORMED, f"{len(found)} systems; spec.system must name one")
    return found[0]


async def _chassis(connection: RedfishConnection, system: Json) -> AsyncIterator[Json]:
    linked = part(system, "Links").get("Chassis")
    paths = list(_links(linked))
    if not paths:
        paths = _members((await connection.get(f"{ROOT}/Chassis")).body)
    for path in paths[:_MOST_MEMBERS]:
        yield (await connection.get(path)).body


async def _linked(connection: RedfishConnection, body: Json, name: str) -> tuple[str, Json]:
    path = part(body, name).get("@odata.id")
    if not isinstance(path, str):
        return "", {}
    try:
        return path, (await connection.get(path)).body
    except BmcError as error:
        if error.reason is BmcReason.REFUSED:
            return "", {}  # a link to what this model does not have
        raise


async def _reading(
    connection: RedfishConnection, environment: tuple[str, Json], power: tuple[str, Json]
) -> tuple[str, float | None]:
    """Return the resource with the reading, and the reading's interval."""
    if reading_watts(environment[1]) is not None:
        source = part(environment[1], "PowerWatts").get("DataSourceUri")
        _, sensor = await _linked(connection, {"sensor": {"@odata.id": source}}, "sensor")
        return environment[0], _duration_s(sensor.get("SensingInterval"))
    if reading_watts(power[1]) is not None:
        metrics = part(power_controls(power[1])[0], "PowerMetrics")
        minutes = number(metrics.get("IntervalInMin"))
        return power[0], None if minutes is None else minutes * 60
    return "", None


async def _limit(
    connection: RedfishConnection, chassis: Json, environment: tuple[str, Json], power: tuple[str, Json]
) -> LimitResource | None:
    places: list[tuple[LimitResource, Json]] = [(EnvironmentLimit(environment[0]), environment[1])]
    _, controls = await _linked(connection, chassis, "Controls")
    places.extend([(ControlLimit(path), (await connection.get(path)).body) for path in _members(controls)])
    places.append((PowerControlLimit(power[0]), power[1]))
    return next((place for place, body in places if place.path and place.read(body) is not None), None)


def _members(collection: Json) -> list[str]:
    return list(_links(collection.get("Members")))[:_MOST_MEMBERS]


def _links(found: object) -> Iterator[str]:
    for each in found if isinstance(found, list) else ():
        path = part({"link": each}, "link").get("@odata.id")
        if isinstance(path, str):
            yield path


async def _allowed_resets(connection: RedfishConnection, action: Part) -> tuple[str, ...]:
    """Return the reset types that the action names, or those of its ActionInfo where it names none itself.

    Source: DMTF DSP0266, "Allowable values for action parameters"; OpenBMC has the second form only.
    """
    allowed = action.get(f"{_RESET_PARAMETER}@Redfish.AllowableValues")
    if allowed is None:
        link = {"info": {"@odata.id": action.get("@Redfish.ActionInfo")}}
        _, info = await _linked(connection, link, "info")
        parameters = info.get("Parameters")
        named = [part({"each": each}, "each") for each in (parameters if isinstance(parameters, list) else ())]
        allowed = next((each.get("AllowableValues") for each in named if each.get("Name") == _RESET_PARAMETER), None)
    return _reset_types(allowed)


def _reset_types(found: object) -> tuple[str, ...]:
    """Return the reset types that a request may have; others are left out, and joined ones are taken apart."""
    types = [text(each) for each in found] if isinstance(found, list) else []
    words = [each for each in types if _RESET_TYPE.fullmatch(each)][:_MOST_RESET_TYPES]
    parts = [_KNOWN.findall(each) if _JOINED.fullmatch(each) else [each] for each in words]
    return tuple(dict.fromkeys(itertools.chain.from_iterable(parts)))[:_MOST_RESET_TYPES]


def _duration_s(value: object) -> float | None:
    """Return the seconds of an ISO 8601 duration of minutes and seconds; None for anything else."""
    match = _SECONDS.fullmatch(text(value))
    if match is None or not any(match.groups()):
        return None
    return 60 * float(match[1] or 0) + float(match[2] or 0)
