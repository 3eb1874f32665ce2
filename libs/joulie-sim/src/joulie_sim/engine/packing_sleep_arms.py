"""Arms with `energy_v2` whose idle nodes sleep."""

from typing import Final

from joulie_core.kinds.node_sleep_policy import ConsolidationMode, ConsolidationSpec, MinAwakeSpec, SpareOf
from joulie_core.policy import static_partition
from joulie_core.scoring import energy_v2
from joulie_core.sleep import SleepSettings
from joulie_sim.engine.arm import ALL_NODES, EVERY_NODE, SleepingArm
from joulie_sim.engine.joulie_settings import JoulieSettings, StatingJoulieSettings
from joulie_sim.engine.node_scores import ScoreSettings
from joulie_sim.engine.node_sleep_settings import MovingSleepSettings, NodeSleepSettings
from joulie_sim.engine.stated_scores import StatedTimeSettings

_PACKING: Final = ScoreSettings(policy=energy_v2.NAME)
#: Spare nodes are shared by all hardware families that offer the same resources.
_SHARED_SPARE: Final = SleepSettings(min_awake=MinAwakeSpec(spare_of=SpareOf.RESOURCES))


def _packing(name: str, summary: str, sleep: NodeSleepSettings) -> SleepingArm:
    """Return an arm with energy_v2 whose idle nodes sleep."""
    return SleepingArm(
        name=name,
        summary=summary,
        nodes_to_score_pct=ALL_NODES,
        joulie=JoulieSettings(policy=static_partition.NAME, policy_values=EVERY_NODE, score=_PACKING),
        sleep=sleep,
    )


def _stated(name: str, states: str, stated: StatedTimeSettings) -> SleepingArm:
    return SleepingArm(
        name=name,
        summary=f"packing_score_sleep_shared with jobs that state {states}",
        nodes_to_score_pct=ALL_NODES,
        joulie=StatingJoulieSettings(
            policy=static_partition.NAME, policy_values=EVERY_NODE, score=_PACKING, stated=stated
        ),
        sleep=NodeSleepSettings(decision=_SHARED_SPARE),
    )


PACKING_SLEEP_ARMS: Final = (
    _packing(
        "packing_score_sleep",
        "the extender's scores by energy_v2, no node ever capped; idle nodes sleep",
        NodeSleepSettings(),
    ),
    _packing(
        "packing_score_sleep_spare_1",
        "packing_score_sleep with one spare node of each hardware family in place of two",
        NodeSleepSettings(decision=SleepSettings(min_awake=MinAwakeSpec(spare=1))),
    ),
    _packing(
        "packing_score_sleep_shared",
        "packing_score_sleep with two spare nodes for all CPU families and two for all with GPUs",
        NodeSleepSettings(decision=_SHARED_SPARE),
    ),
    _packing(
        "packing_score_sleep_arrivals",
        "packing_score_sleep_shared with as many spare nodes as came into use at this time of day, and no others that "
        "stay awake",
        NodeSleepSettings(decision=SleepSettings(min_awake=MinAwakeSpec(count=0, spare_of=SpareOf.ARRIVALS))),
    ),
    _packing(
        "packing_score_sleep_shared_moved",
        "packing_score_sleep_shared where consolidation may move all standard jobs, which lose 5 minutes of their work",
        MovingSleepSettings(
            decision=_SHARED_SPARE.model_copy(update={"consolidation": ConsolidationSpec(mode=ConsolidationMode.ACT)})
        ),
    ),
    _stated("packing_score_sleep_shared_stated", "the time on the mean device", StatedTimeSettings()),
    _stated(
        "packing_score_sleep_shared_stated_error",
        "that time with an error (of its logarithm: 0.5)",
        StatedTimeSettings(error_sigma=0.5),
    ),
)
