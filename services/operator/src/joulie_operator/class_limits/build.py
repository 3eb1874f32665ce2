"""Builds what lifts limits by class."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from joulie_api.app import App
from joulie_api.metrics import NodeSeriesCollector
from joulie_core.class_caps.waiting import DEFAULT_RULE
from joulie_core.names import NodeName
from joulie_operator.class_limits.lifting import ClassLimitLifting
from joulie_operator.class_limits.metrics import lifting_families
from joulie_operator.class_limits.nodes import GpuNodes
from joulie_operator.cluster import Cluster
from joulie_operator.published_state import PublishedState
from joulie_operator.settings import OperatorSettings
from joulie_operator.watches import OperatorWatches


@dataclass(frozen=True, slots=True)
class LiftingSurroundings:
    """Parts of the operator that the decision depends on."""

    watches: OperatorWatches
    cluster: Cluster
    published: PublishedState
    #: Called for each node whose target has to change.
    changed: Callable[[NodeName], None]


def build_limit_lifting(
    settings: OperatorSettings, app: App, around: LiftingSurroundings, is_leading: Callable[[], bool]
) -> ClassLimitLifting | None:
    """Return what is to be run; None where limits are never lifted.

    Args:
        settings: of the operator.
        app: of the process.
        around: the parts that it depends on.
        is_leading: whether this replica leads; others export no series.
    """
    if not settings.lift_class_limits:
        return None
    clock = asyncio.get_running_loop().time
    rule = replace(DEFAULT_RULE, hold_s=settings.class_limits_lifted_for, spare_pct=settings.class_limits_spare_pct)
    lifting = ClassLimitLifting(
        around.watches.pods,
        GpuNodes(around.cluster, app.failures),
        around.published,
        around.changed,
        app.failures,
        clock=clock,
        rule=rule,
    )
    app.registry.register(
        NodeSeriesCollector(
            lambda: lifting_families(waiting=lifting.waiting, lifted_nodes=lifting.lifted_nodes) if is_leading() else ()
        )
    )
    return lifting
