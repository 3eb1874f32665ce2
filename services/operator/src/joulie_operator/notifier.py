"""Sends notifications: to metrics, the log and Events."""

from collections.abc import Callable

import structlog

from joulie_operator.events import Event, not_processed_event, refusal_event, transition_event, unknown_pods_event
from joulie_operator.gpu_caps_check import GpuCapsCheck
from joulie_operator.metrics import OperatorMetrics
from joulie_operator.notifications import (
    CapsRefused,
    GpuCapNotListed,
    NodeNotProcessed,
    Notification,
    PodsUnreadable,
    TransitionMade,
)

_log = structlog.get_logger()


class Notifier:
    """Sends notifications; never waits."""

    def __init__(self, metrics: OperatorMetrics, record: Callable[[Event], None], gpu_caps_check: GpuCapsCheck) -> None:
        self._metrics = metrics
        self._record = record
        self._gpu_caps_check = gpu_caps_check

    def notify(self, notification: Notification) -> None:
        """Send a notification; of a GPU model without a cap, the first one only."""
        match notification:
            case TransitionMade(node, transition, performance_pods):
                self._metrics.on_transition(node.name, transition)
                _log.info(
                    "node state changed",
                    node=node.name,
                    from_state=transition.from_state,
                    to_state=transition.to_state,
                    result=transition.result,
                    performance_pods=performance_pods,
                )
                self._record(transition_event(node, transition, performance_pods))
            case PodsUnreadable(node, state):
                self._record(unknown_pods_event(node, state))
            case GpuCapNotListed(gpu):
                self._gpu_caps_check.on_unlisted(gpu)
            case CapsRefused(node, enforced):
                self._record(refusal_event(node, enforced))
            case NodeNotProcessed(node, error):
                self._record(not_processed_event(node, error))
