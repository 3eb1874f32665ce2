from dataclasses import fields

import pytest

from joulie_agent.resources.values import UNSET, ContainerValues
from joulie_core.containers.idset import IdSet

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
