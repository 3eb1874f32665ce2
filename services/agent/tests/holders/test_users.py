"""Users of the GPUs, by an actuator that answers, fails, hangs and comes back."""

import pytest

from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.protocol import ReadGpuProcesses
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import GpuProcesses, GpuUsers
from joulie_agent.holders.users import MOST_AGE_S, GpuUsersFollower, read_gpu_users
from joulie_core.holders.records import DeviceUsers

ANSWER = GpuProcesses(
    users={"GPU-a": GpuUsers(pods=("u1",), outside_pid=7)},
    failures={
        "GPU-b": HardwareFailure(Reason.NO_INTERFACE, "no list\x1b[31m"),
        "GPU-c": HardwareFailure(Reason.TIMEOUT),
    },
)


class Client:
    def __init__(self, reply):
        self.reply = reply
        self.requests = []

    async def execute(self, request):
        self.requests.append(request)
        return self.reply


async def test_the_answer_of_the_actuator_is_taken_by_gpu():
    client = Client(ANSWER)
    found = await read_gpu_users(client)
    assert client.requests == [ReadGpuProcesses()]
    assert found["GPU-a"] == DeviceUsers(frozenset({"u1"}), outside_pid=7)
    assert found["GPU-b"].problem.startswith("no list")
    assert found["GPU-b"].problem.isprintable()
    assert found["GPU-c"].problem == "Timeout"


async def test_no_answer_is_nothing_known():
    assert await read_gpu_users(Client(HardwareFailure(Reason.TIMEOUT, "late"))) == {}


class Machine:
    """An actuator that takes some time for its answer, and the clock."""

    def __init__(self):
        self.now, self.takes_s, self.users = 100.0, 0.0, {"GPU-a": DeviceUsers(outside_pid=1)}
        self.follower = GpuUsersFollower(self.read, lambda: self.now)

    async def read(self):
        self.now += self.takes_s
        return self.users


@pytest.fixture
async def machine():
    return Machine()


async def test_the_newest_answer_counts_until_it_is_old(machine):
    assert machine.follower.current() == {}
    await machine.follower.ask()
    machine.now += MOST_AGE_S
    assert machine.follower.current() == machine.users
    machine.now += 0.1
    assert machine.follower.current() == {}
    await machine.follower.ask()
    assert machine.follower.current() == machine.users


async def test_an_answer_is_as_old_as_its_question(machine):
    machine.takes_s = MOST_AGE_S + 0.1
    await machine.follower.ask()
    assert machine.follower.current() == {}


async def test_the_failure_of_one_gpu_hides_no_other(machine):
    machine.users = {"GPU-a": DeviceUsers(problem="no list"), "GPU-b": DeviceUsers()}
    await machine.follower.ask()
    assert machine.follower.current() == machine.users
