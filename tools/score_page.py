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
