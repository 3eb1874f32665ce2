"""A node on a scripted host."""

import pytest

from joulie_agent.backends.factory import BackendFactory
from joulie_testing.agent.scripted_host import NO_ANSWER, ScriptedHost, node_control


class NoNetwork:
    """Reaches nothing."""

    async def get(self, _target, _params=None):
        return NO_ANSWER


@pytest.fixture
def host():
    return ScriptedHost()


@pytest.fixture
def factory(host):
    return BackendFactory(NoNetwork(), lambda _node: host)


@pytest.fixture
def control(factory):
    return node_control(factory)
