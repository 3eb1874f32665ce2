"""What is said of a write that fails."""

import pytest
from services.operator.tests.sleep.controller.controlled import record
from structlog.testing import capture_logs

from joulie_api.errors import ApiError
from joulie_core.sleep import SleepState

#: Kind of request, its name in the log, and what it is about.
WRITES = [
    ("Node", "record", {"node": "n1"}),
    ("Node status", "condition", {"node": "n1"}),
    ("NodeBMC", "power", {"node": "n1"}),
    ("NodeBMC status", "condition of NodeBMC", {"node": "n1"}),
    ("NodeSleepPolicy status", "status", {"policy": "p"}),
]


def to_be_written(world, what):
    """Let one pass send a request of that kind, and no other one fail."""
    world.node(SleepState.WAKING, shown=what != "Node status")
    if what == "Node":
        world.decide(n1=record(SleepState.AWAKE))
    elif what == "NodeBMC":
        world.bmc()
    elif what == "NodeBMC status":
        world.bmc(status={"conditions": [{"type": "LeftOff", "status": "True", "reason": "NodeMissing"}]})
    elif what == "NodeSleepPolicy status":
        world.policy("p", mode="Act")


@pytest.mark.parametrize(("what", "write", "subject"), WRITES)
async def test_a_write_that_fails_is_in_the_log_once_with_what_it_is_about_until_it_succeeds(
    world, what, write, subject
):
    to_be_written(world, what)
    world.api.errors[what] = [ApiError(500, "", "broken")] * 2
    with capture_logs() as logs:
        for _ in range(3):
            await world.step()
    found = [each for each in logs if each["event"].startswith("sleep write")]
    assert [each["event"] for each in found] == ["sleep write failed, will be repeated", "sleep write succeeded"]
    assert "broken" in found[0]["problem"]
    for each in found:
        assert {"write": write, **subject}.items() <= each.items()


@pytest.mark.parametrize(
    ("what", "work", "subject"),
    [(what, "store sleep record" if what == "Node" else f"sleep {write}", about) for what, write, about in WRITES],
)
async def test_a_write_that_fails_for_an_unexpected_reason_is_a_defect_of_that_object(world, what, work, subject):
    to_be_written(world, what)
    world.api.errors[what] = [OverflowError("a defect")]
    with capture_logs() as logs:
        await world.step()
    assert world.defects(work) == 1
    (found,) = (each for each in logs if each["event"] == "internal error, will be repeated")
    assert subject.items() <= found.items()
