"""CPU profiles of kube-scheduler: reading them, and dividing them into parts of its work.

A profile is a gzipped protocol buffer (github.com/google/pprof, proto/profile.proto). Only samples, locations,
functions and the table of strings are read.
"""

import gzip
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
#: Fields of the messages Profile, Sample, Location, Line and Function.
_PROFILE_SAMPLE, _PROFILE_LOCATION, _PROFILE_FUNCTION, _PROFILE_STRING = 2, 4, 5, 6
_SAMPLE_LOCATION, _SAMPLE_VALUE = 1, 2
_LOCATION_ID, _LOCATION_LINE = 1, 4
_LINE_FUNCTION = 1
_FUNCTION_ID, _FUNCTION_NAME = 1, 2

_NANOSECONDS = 1e9


class Part(StrEnum):
    """A part of kube-scheduler's work."""

    ENCODE = "extender: encode requests"
    DECODE = "extender: decode replies"
    HTTP = "extender: HTTP"
    EXTENDER = "extender: rest"
    FILTER = "filter plugins"
    SCORE = "score plugins"
    CYCLE = "scheduling cycle, rest"
    BIND = "binding, events"
    WATCH = "watches, queue"
    COLLECTOR = "garbage collector"
    OTHER = "rest"


#: The part of a stack is the first of which one function is on it. Functions are named by a part of their names.
_PARTS: tuple[tuple[Part, tuple[str, ...]], ...] = (
    (Part.COLLECTOR, ("runtime.gcBgMarkWorker", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gcAssistAlloc")),
    (Part.ENCODE, ("(*HTTPExtender).send;encoding/json.Marshal",)),
    (Part.DECODE, ("(*HTTPExtender).send;encoding/json.(*Decoder).Decode",)),
    # The API server is called with HTTP/2, which has functions of its own.
    (Part.HTTP, ("(*HTTPExtender).send", "net/http.(*persistConn)")),
    (Part.EXTENDER, ("(*HTTPExtender)", "findNodesThatPassExtenders", "scheduler.prioritizeNodes.func")),
    (Part.FILTER, ("findNodesThatPassFilters", "RunPreFilterPlugins", "RunFilterPlugins")),
    (Part.SCORE, ("RunScorePlugins", "RunPreScorePlugins")),
    (Part.CYCLE, ("scheduler.(*Scheduler).schedulingCycle", "scheduler.(*Scheduler).ScheduleOne.func1")),
    (Part.BIND, ("scheduler.(*Scheduler).bindingCycle", "tools/events", "client-go/rest", "http2")),
    (Part.WATCH, ("client-go/tools/cache", "scheduling_queue", "backend/queue", "backend/cache", "apimachinery")),
    (Part.CYCLE, ("scheduler.(*Scheduler).ScheduleOne",)),
)


def read_stacks(profile: bytes) -> Counter[tuple[str, ...]]:
    """Return the CPU time of each stack in nanoseconds; functions from the inner to the outer."""
    strings: list[str] = []
    names: dict[int, int] = {}
    lines: dict[int, list[int]] = {}
    samples: list[tuple[list[int], int]] = []
    for field, value in _fields(gzip.decompress(profile)):
        if field == _PROFILE_STRING:
            strings.append(_bytes(value).decode())
        elif field == _PROFILE_FUNCTION:
            function = dict(_fields(_bytes(value)))
            names[_int(function[_FUNCTION_ID])] = _int(function.get(_FUNCTION_NAME, 0))
        elif field == _PROFILE_LOCATION:
            identity, functions = _location(_bytes(value))
            lines[identity] = functions
        elif field == _PROFILE_SAMPLE:
            samples.append(_sample(_bytes(value)))
    stacks: Counter[tuple[str, ...]] = Counter()
    for locations, nanoseconds in samples:
        stacks[tuple(strings[names[f]] for location in locations for f in lines[location])] += nanoseconds
    return stacks


def cpu_by_part(stacks: Counter[tuple[str, ...]]) -> dict[Part, float]:
    """Return the CPU time of each part in seconds."""
    seconds = dict.fromkeys(Part, 0.0)
    for stack, nanoseconds in stacks.items():
        seconds[part_of(stack)] += nanoseconds / _NANOSECONDS
    return seconds


def part_of(stack: tuple[str, ...]) -> Part:
    """Return the part of the work that a stack belongs to; functions from the inner to the outer."""
    return next((part for part, rules in _PARTS if any(_is_on(rule, stack) for rule in rules)), Part.OTHER)


def _is_on(rule: str, stack: tuple[str, ...]) -> bool:
    return all(any(wanted in name for name in stack) for wanted in rule.split(";"))


def _sample(data: bytes) -> tuple[list[int], int]:
    locations: list[int] = []
    values: list[int] = []
    for field, value in _fields(data):
        if field == _SAMPLE_LOCATION:
            locations += _packed(value)
        elif field == _SAMPLE_VALUE:
            values += _packed(value)
    return locations, values[-1]  # of a CPU profile: the number of samples, and nanoseconds


def _location(data: bytes) -> tuple[int, list[int]]:
    identity = 0
    functions: list[int] = []
    for field, value in _fields(data):
        if field == _LOCATION_ID:
            identity = _int(value)
        elif field == _LOCATION_LINE:
            functions.append(_int(dict(_fields(_bytes(value)))[_LINE_FUNCTION]))
    return identity, functions


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        kind = key & 7
        if kind == _VARINT:
            value, position = _varint(data, position)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            size, position = _varint(data, position)
        else:
            size = {_FIXED64: 8, _FIXED32: 4}[kind]
        yield key >> 3, data[position : position + size]
        position += size


def _packed(value: int | bytes) -> list[int]:
    if isinstance(value, int):
        return [value]
    numbers: list[int] = []
    position = 0
    while position < len(value):
        number, position = _varint(value, position)
        numbers.append(number)
    return numbers


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7


def _int(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise TypeError("expected a number")
    return value


def _bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError("expected bytes")
    return value
