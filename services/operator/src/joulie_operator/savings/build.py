"""The estimate of savings, connected to the other parts of the operator."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from joulie_api.app import App
from joulie_api.apply import FencedWriter
from joulie_api.client import KubeClient
from joulie_api.metrics import NodeSeriesCollector
from joulie_core.kinds.node_twin import ServerMeasurement
from joulie_core.kinds.telemetry_profile import TelemetryProfileStatus
from joulie_core.names import NodeName
from joulie_operator.cluster import Cluster
from joulie_operator.events import Event
from joulie_operator.savings.controller import SavingsController, SavingsParts
from joulie_operator.savings.estimate import SavingsEstimate, SavingsSight
from joulie_operator.settings import OperatorSettings
from joulie_operator.watches import OperatorWatches


@dataclass(frozen=True, slots=True)
class SavingsSurroundings:
    """Parts of the operator that the estimate uses."""

    client: KubeClient
    writer: FencedWriter
    cluster: Cluster
    watches: OperatorWatches
    #: Power of a whole server, by its BMC.
    server_power: Callable[[NodeName], ServerMeasurement | None]
    record_event: Callable[[Event], None]


def build_savings(
    settings: OperatorSettings, app: App, around: SavingsSurroundings, is_leading: Callable[[], bool]
) -> SavingsController:
    """Return the controller, subscribed to pods; its series are exported while this process leads."""
    watches = around.watches

    def report(name: NodeName) -> TelemetryProfileStatus | None:
        profile = watches.telemetry.store.get(name)
        return None if profile is None else profile.model.status

    def stale_reason() -> str | None:
        return next((reason for watch in watches.all if (reason := watch.stale_reason()) is not None), None)

    sight = SavingsSight(
        around.cluster,
        watches.pods.store,
        around.server_power,
        report,
        max_age_s=settings.operator_node_power_max_age,
    )
    estimate = SavingsEstimate(sight, app.failures)
    watches.pods.subscribe(estimate.on_pod)
    controller = SavingsController(
        SavingsParts(
            client=around.client,
            writer=around.writer,
            estimate=estimate,
            stale_reason=stale_reason,
            record_event=around.record_event,
            failures=app.failures,
            wall=time.time,
            namespace=settings.lease_namespace,
        )
    )
    app.registry.register(
        NodeSeriesCollector(lambda: controller.counters.families(controller.rates) if is_leading() else ())
    )
    return controller
