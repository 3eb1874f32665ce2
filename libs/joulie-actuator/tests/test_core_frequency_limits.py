"""Which limit a frequency policy has by the limits of its CPUs."""

import pytest

from joulie_actuator.core_limits import NO_CORE_LIMITS, CoreFrequencyLimits
from joulie_actuator.cpu_class_protocol import CoreFrequencyLimit
from joulie_core.containers.idset import Cpus


def two_limits():
    first = CoreFrequencyLimit(cpus="0-1,8", max_khz=2_000_000)
    return CoreFrequencyLimits(iter([first, CoreFrequencyLimit(cpus="2", max_khz=3_000_000)]))


@pytest.mark.parametrize(
    ("cpus", "khz"),
    [
        ([0], 2_000_000),
        ([0, 8], 2_000_000),
        ([1, 2], 3_000_000),
        ([2, 1], 3_000_000),
        ([3], None),
        ([0, 3], None),
        ([], None),
    ],
)
def test_a_policy_has_the_highest_limit_of_its_cpus_and_none_where_one_has_none(cpus, khz):
    assert two_limits().of(cpus) == khz
    assert two_limits().of(iter(cpus)) == khz


def test_the_cpus_with_a_limit_are_known():
    assert two_limits().cpus == Cpus.parse("0-2,8")
    assert not NO_CORE_LIMITS.cpus
    assert NO_CORE_LIMITS.of([0]) is None
