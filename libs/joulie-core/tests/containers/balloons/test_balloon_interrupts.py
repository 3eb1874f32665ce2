"""What balloons want of interrupts."""

from joulie_core.containers.idset import EMPTY
from joulie_core.containers.interrupts import NO_INTERRUPTS, InterruptClaim, InterruptPlacement
from joulie_testing.core.containers import container

FAST = {"name": "fast", "namespaces": ["fast"], "irqMode": "isolate", "irqClaim": ["eth0-*", "24"]}
QUIET = {"name": "quiet", "namespaces": ["quiet"], "irqMode": "isolate", "preferNewBalloons": True}
SINK = {"name": "sink", "namespaces": ["sink"], "irqMode": "sink"}


def wanted(found):
    return found.policy.interrupts(found.state)


def test_balloons_claim_take_all_or_want_none_as_their_type_says(node):
    found = node(FAST, QUIET, SINK).add(
        container("a", 2000, namespace="fast"),
        container("b", 1000, namespace="quiet"),
        container("c", 3000, namespace="quiet"),
        container("d", 1000, namespace="sink"),
        container("e", 1000, namespace="other"),
    )
    fast = found.balloon("fast[0]")
    assert wanted(found) == InterruptPlacement(
        claims=(InterruptClaim(("eth0-*", "24"), fast),),
        sinks=found.balloon("sink[0]"),
        isolated=fast | found.balloon("quiet[0]") | found.balloon("quiet[1]"),
    )


def test_types_without_a_balloon_and_balloons_without_cpus_want_nothing(node):
    found = node(FAST, SINK, QUIET | {"maxCPUs": -1})
    assert wanted(found) == NO_INTERRUPTS
    found.add(container("a", 2000, namespace="fast"))
    assert wanted(found).isolated == found.balloon("fast[0]")
    found.remove("a")
    assert wanted(found) == NO_INTERRUPTS
    assert not wanted(found)


def test_a_composite_balloon_and_its_components_each_want_what_their_type_says(node):
    part = {"name": "part", "irqMode": "isolate"}
    whole = {"name": "whole", "namespaces": ["*"], "irqClaim": ["nvme*"], "components": [{"balloonType": "part"}]}
    found = node(part, whole).add(container("a", 2000))
    assert wanted(found) == InterruptPlacement(
        claims=(InterruptClaim(("nvme*",), found.balloon("whole[0]")),), isolated=found.balloon("whole[0]")
    )
    assert found.balloon("whole[0]") != EMPTY
