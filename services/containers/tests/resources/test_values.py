from dataclasses import fields, replace

import pytest
from google.protobuf.json_format import MessageToDict

from joulie_containers.nri.proto.nri_pb2 import LinuxResources
from joulie_containers.resources.values import (
    MOST_CPU_MILLI,
    NO_CLASSES,
    PERIOD_US,
    UNSET,
    ContainerValues,
    read_values,
    to_resources,
)
from joulie_core.containers.idset import IdSet, InvalidIdListError

ONE = ContainerValues(cpus=IdSet([1]), memory=IdSet([1]), cpu_shares=1, cpu_quota_us=1, memory_limit_bytes=1)
TWO = ContainerValues(cpus=IdSet([2]), memory=IdSet([2]), cpu_shares=2, cpu_quota_us=2, memory_limit_bytes=2)
FIELDS = [field.name for field in fields(ContainerValues)]


def only(values, name):
    return ContainerValues(**{name: getattr(values, name)})


@pytest.mark.parametrize("name", FIELDS)
def test_values_are_fulfilled_by_equal_ones_whatever_is_set_besides(name):
    assert only(ONE, name).fulfilled_by(ONE)


@pytest.mark.parametrize("name", FIELDS)
def test_values_are_not_fulfilled_by_another_one_of_a_field(name):
    assert not ONE.fulfilled_by(only(TWO, name).over(ONE))


@pytest.mark.parametrize("name", FIELDS)
def test_values_are_not_fulfilled_where_one_is_missing(name):
    assert not only(ONE, name).fulfilled_by(UNSET)


@pytest.mark.parametrize("name", FIELDS)
def test_values_over_others_replace_what_they_set_and_nothing_else(name):
    merged = only(TWO, name).over(ONE)
    assert {other for other in FIELDS if getattr(merged, other) == getattr(TWO, other)} == {name}


#: Field of the message, the value and what is written.
MESSAGES = [
    ("cpus", IdSet.parse("0-2,7"), {"cpu": {"cpus": "0-2,7"}}),
    ("memory", IdSet.parse("1"), {"cpu": {"mems": "1"}}),
    ("cpu_shares", 512, {"cpu": {"shares": {"value": "512"}}}),
    ("cpu_quota_us", 150_000, {"cpu": {"quota": {"value": "150000"}, "period": {"value": "100000"}}}),
    ("cpu_quota_us", -1, {"cpu": {"quota": {"value": "-1"}, "period": {"value": "100000"}}}),
    ("memory_limit_bytes", 1 << 30, {"memory": {"limit": {"value": "1073741824"}}}),
]


@pytest.mark.parametrize(("name", "value", "message"), MESSAGES)
def test_each_value_is_a_message_of_its_own_and_is_read_from_it(name, value, message):
    values = ContainerValues(**{name: value})
    written = to_resources(values)
    assert MessageToDict(written) == message
    assert read_values(written) == values


def test_values_that_are_not_set_leave_everything():
    assert to_resources(UNSET) == LinuxResources()
    assert read_values(LinuxResources()) == UNSET


@pytest.mark.parametrize(
    ("quota_us", "period_us", "per_period_us"),
    [(50_000, 50_000, 100_000), (10_001, 20_000, 50_005), (30_000, 0, 30_000), (-1, 50_000, -1), (0, 50_000, 0)],
)
def test_a_quota_is_read_in_the_period_that_is_set_here(quota_us, period_us, per_period_us):
    message = LinuxResources()
    message.cpu.quota.value, message.cpu.period.value = quota_us, period_us
    assert read_values(message).cpu_quota_us == per_period_us


def test_a_quota_of_zero_is_a_quota_and_a_period_alone_is_none():
    message = LinuxResources()
    message.cpu.period.value = 50_000
    assert read_values(message) == UNSET
    message.cpu.quota.value = 0
    assert read_values(message).cpu_quota_us == 0


def test_a_malformed_list_of_cpus_is_an_error():
    message = LinuxResources()
    message.cpu.cpus = "0-"
    with pytest.raises(InvalidIdListError):
        read_values(message)


def test_values_over_others_are_the_same_object_where_they_set_as_much():
    assert ONE.over(TWO) is ONE
    assert ONE.over(UNSET) is ONE


def test_a_container_without_classes_has_neither():
    assert (NO_CLASSES.rdt, NO_CLASSES.blockio) == (None, None)


def test_the_most_cpus_of_a_container_are_a_quota_that_the_kernel_takes():
    assert MOST_CPU_MILLI * PERIOD_US // 1000 < 1 << 44
    assert MOST_CPU_MILLI >= 1000 * (1 << 20)


@pytest.mark.parametrize("above", FIELDS)
@pytest.mark.parametrize("below", FIELDS)
def test_values_of_one_field_over_those_of_another_are_both(above, below):
    merged = only(TWO, above).over(only(ONE, below))
    expected = {below: getattr(ONE, below)} | {above: getattr(TWO, above)}
    assert {name: value for name in FIELDS if (value := getattr(merged, name)) is not None} == expected


@pytest.mark.parametrize("name", FIELDS)
def test_a_value_that_all_others_lack_is_kept_below_them(name):
    others = replace(TWO, **{name: None})
    assert others.over(only(ONE, name)) == replace(TWO, **{name: getattr(ONE, name)})


def test_a_quota_is_a_whole_number_of_microseconds():
    message = LinuxResources()
    message.cpu.quota.value, message.cpu.period.value = 1, 30_000
    assert repr(read_values(message).cpu_quota_us) == "3"
