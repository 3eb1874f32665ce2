"""Evictions of pods from nodes that drain, within their disruption budgets.

Guarantees that an eviction which fails, for whatever reason, is counted, holds no other up, and is tried again at the
next pass, for as long as the node drains.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import structlog

from joulie_api.errors import KubeError, NotFound, NotLeader, TooManyRequests
from joulie_api.failure_log import FailureLog
from joulie_api.failures import Failures
from joulie_operator.sleep.metrics import SleepMetrics
from joulie_operator.sleep.pods import PodRole, WatchedPod
from joulie_operator.sleep.writer import SleepWriter

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class SleepEvictions:
    """The evictions of one operator; `failures` counts unexpected errors, `write_failures` logs refused writes."""

    writer: SleepWriter
    metrics: SleepMetrics
    failures: Failures
    write_failures: FailureLog

    async def evict(self, pods: Iterable[WatchedPod]) -> None:
        """Evict those that their controllers replace elsewhere.

        Raises:
            NotLeader: this process must not write any more.
        """
        for pod in pods:
            if pod.role is not PodRole.MOVABLE or pod.ending:
                continue
            subject = {"pod": pod.name, "namespace": pod.namespace, "node": pod.node}
            with self.failures.contained("evict pod", **subject):
                try:
                    await self.writer.evict(pod)
                except NotLeader:
                    raise
                except TooManyRequests as error:
                    self.metrics.on_eviction("blocked")
                    self.write_failures.failed(error, cause="budget", **subject)
                except NotFound:
                    self.metrics.on_eviction("gone")
                except KubeError as error:
                    self.metrics.on_eviction("failed")
                    self.write_failures.failed(error, **subject)
                else:
                    self.metrics.on_eviction("evicted")
                    self.write_failures.recovered(**subject)
                    _log.info("pod evicted", **subject)
