"""Rules by which the table judges nodes."""

from dataclasses import dataclass

from joulie_core.powerest.marginal import Coefficients
from joulie_core.scoring.policy import ScorePolicy
from joulie_core.scoring.registry import DEFAULT_SCORE


@dataclass(frozen=True, slots=True)
class TableConfig:
    """Rules by which nodes are judged."""

    coefficients: Coefficients
    staleness_threshold_s: float
    telemetry_interval_s: float
    #: How long a pod that was scored counts on the node it will probably get, unless it is seen on one.
    assumed_window_s: float
    #: Whether pods count that are not in the measurement yet.
    count_in_flight: bool
    #: Whether marginal watts are weighted with the node's estimated PUE.
    weigh_pue: bool
    #: The score of a perfect node.
    score_max: int
    #: How nodes are scored.
    score: ScorePolicy = DEFAULT_SCORE
