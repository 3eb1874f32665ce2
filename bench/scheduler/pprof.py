"""CPU profiles of kube-scheduler: reading them, and dividing them into parts of its work.

A profile is a gzipped protocol buffer (github.com/google/pprof, proto/profile.proto). Only samples, locations,
functions and the table of strings are read.
"""

import gzip
from collections import Counter
from enum import StrEnum
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto

#: The fields that are read, by message: name, number, type, and whether it is repeated. All others are skipped.
_MESSAGES: Final[dict[str, tuple[tuple[str, int, str, bool], ...]]] = {
    "Profile": (
        ("sample", 2, "Sample", True),
        ("location", 4, "Location", True),
        ("function", 5, "Function", True),
        ("string_table", 6, "string", True),
    ),
    "Sample": (("location_id", 1, "uint64", True), ("value", 2, "int64", True)),
    "Location": (("id", 1, "uint64", False), ("line", 4, "Line", True)),
    "Line": (("function_id", 1, "uint64", False),),
    "Function": (("id", 1, "uint64", False), ("name", 2, "int64", False)),
}
_PACKAGE: Final = "perftools.profiles"

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
    found = _profile_class().FromString(gzip.decompress(profile))
    names = {function.id: found.string_table[function.name] for function in found.function}
    lines = {location.id: [names[line.function_id] for line in location.line] for location in found.location}
    stacks: Counter[tuple[str, ...]] = Counter()
    for sample in found.sample:
        # The values of a sample of a CPU profile: how often it was seen, and nanoseconds.
        stacks[tuple(name for location in sample.location_id for name in lines[location])] += sample.value[-1]
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


def _profile_class() -> Any:
    """Return the class of the message Profile."""
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package=_PACKAGE, syntax="proto3")
    for message, fields in _MESSAGES.items():
        described = file.message_type.add(name=message)
        for name, number, kind, repeated in fields:
            field = described.field.add(name=name, number=number)
            field.label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
            if kind in _MESSAGES:
                field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                field.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.Profile"))
