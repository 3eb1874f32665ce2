"""Every score policy by name; adding one touches its own module and this one."""

from collections.abc import Mapping
from typing import Final

from joulie_core.scoring.energy_v1 import EnergyScore
from joulie_core.scoring.energy_v2 import PackingScore
from joulie_core.scoring.headroom_v1 import HeadroomScore
from joulie_core.scoring.policy import ScorePolicy

#: The one that is used where none is selected.
DEFAULT_SCORE: Final = HeadroomScore()
SCORE_POLICIES: Final[Mapping[str, ScorePolicy]] = {
    each.name: each for each in (DEFAULT_SCORE, EnergyScore(), PackingScore())
}
#: Names of those that take how long pods are stated to run, see `NodeSituation.covered`.
RUN_TIME_SCORES: Final = frozenset({PackingScore().name})
