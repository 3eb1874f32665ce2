"""Writes docs/scores.md from the docstrings of the score policies."""

import inspect
import sys
from typing import Final

from tools.generated import ROOT, finish

from joulie_core.scoring.registry import DEFAULT_SCORE, SCORE_POLICIES

_HEAD: Final = """\
# Scores

The extender scores nodes for a pod from 0 to 100; `SCORE_MAX` rescales. `SCORE_POLICY` selects how. A score is one
module of `joulie_core.scoring`; [decision 19](decisions/0019-scores.md) has the reasons. [Extending
Joulie](extending.md) shows how to add one.

kube-scheduler adds the answer times the extender's weight times 10 to the scores of its own plugins, which are 0 to 100
times their weight. With `SCORE_MAX` 20 and weight 1 a perfect node counts as much as a preferred affinity or a topology
spread that is kept; with 100, the default, five times as much. `energy_v1` with 20 kept all preferences and added 23 %
less power than no score, with 100 it lost those against nodes with GPUs and added 56 % less
([measured](../experiments/README.md#score_max)).

Below power domains whose limits are enforced, every score loses up to 20 points by what the tightest of them has left
([power budgets](power-budgets.md#placement)).

This page is generated: `just docs`.
"""


def page() -> str:
    """Return the page."""
    lines = [_HEAD]
    for name, policy in SCORE_POLICIES.items():
        doc = inspect.cleandoc(sys.modules[type(policy).__module__].__doc__ or "")
        default = " (default)" if policy is DEFAULT_SCORE else ""
        lines.append(f"## {name}{default}\n\n{doc}\n")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(finish(ROOT / "docs" / "scores.md", page(), "just docs"))
