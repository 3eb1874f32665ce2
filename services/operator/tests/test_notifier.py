"""Notifications: what each becomes in metrics, the log and Events."""

import msgspec
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from joulie_api.wire import decode_node
from joulie_core.caps import CapSettings
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import view_from_node
from joulie_core.transition import GuardResult, NodeState, Transition
from joulie_operator.events import EventType, refusal_event, transition_event, unknown_pods_event
from joulie_operator.gpu_caps_check import GpuCapsCheck
from joulie_operator.metrics import OperatorMetrics
from joulie_operator.notifications import (
    CapsRefused,
    GpuCapNotListed,
    NodeNotProcessed,
    PodsUnreadable,
    TransitionMade,
)
from joulie_operator.notifier import Notifier
from joulie_operator.published import PublishedCondition
from joulie_testing.api import make_node

NODE = decode_node(msgspec.json.encode(make_node("n1", gpus=8, gpu_model="NVIDIA H100 80GB HBM3")))
PERF, DRAIN = NodeState.ACTIVE_PERFORMANCE, NodeState.DRAINING_PERFORMANCE
DEFERRED = Transition(PERF, DRAIN, GuardResult.DEFERRED, 5.0)


class World:
    def __init__(self):
        self.transitions, self.events = [], []
        self.metrics = OperatorMetrics(CollectorRegistry())
        self.metrics.on_transition = lambda name, transition: self.transitions.append((name, transition))
        self.notifier = Notifier(self.metrics, self.events.append, GpuCapsCheck(CapSettings()))

    def notify(self, notification):
        """Send a notification; return the events of the log."""
        with capture_logs() as logs:
            self.notifier.notify(notification)
        return logs


def test_a_transition_is_counted_logged_and_an_event():
    world = World()
    [line] = world.notify(TransitionMade(NODE, DEFERRED, 2))
    assert line == {
        "event": "node state changed",
        "log_level": "info",
        "node": "n1",
        "from_state": "ActivePerformance",
        "to_state": "DrainingPerformance",
        "result": "deferred",
        "performance_pods": 2,
    }
    assert world.transitions == [("n1", DEFERRED)]
    assert world.events == [transition_event(NODE, DEFERRED, 2)]


def test_unreadable_pods_and_refusals_are_events():
    world = World()
    enforced = PublishedCondition("Enforced", "False", "FirmwareLocked", "locked")
    assert world.notify(PodsUnreadable(NODE, DRAIN)) + world.notify(CapsRefused(NODE, enforced)) == []
    assert world.events == [unknown_pods_event(NODE, DRAIN), refusal_event(NODE, enforced)]
    assert world.transitions == []


def test_a_node_that_could_not_be_processed_is_an_event():
    world = World()
    assert world.notify(NodeNotProcessed(NODE, "OverflowError")) == []
    [event] = world.events
    assert (event.subject.name, event.type, event.reason) == ("n1", EventType.WARNING, "InternalError")
    assert event.message.startswith("internal error OverflowError: what is published for the node stays")


def test_a_gpu_model_without_a_cap_is_logged_once():
    world = World()
    gpu = view_from_node(NODE, Inventory.load()).gpu
    logs = [line["model"] for _ in range(2) for line in world.notify(GpuCapNotListed(gpu))]
    assert logs == [gpu.model]
    assert world.events == []
