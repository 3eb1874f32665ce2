"""Writes docs/policies.md and its plots from the policies: docstrings, settings, and plans.

The check compares the text only: plots differ between releases of the plotting library.
"""

import inspect
import sys
from collections.abc import Iterator
from typing import Final

from matplotlib.figure import Figure
from tools.generated import ROOT, cell, finish

from joulie_core.names import NodeName
from joulie_core.policy import POLICIES, Candidate, PolicyContext, build_policy

_DOCS: Final = ROOT / "docs"
_SIZES = (20, 50, 100)
_MOST_PODS = 1_200
_STEP = 5
#: Hardware families of the plots' clusters, with cumulative shares and density: a tenth with GPUs, four tenths new.
_FAMILIES = (("gpu", 0.1, 8.0), ("new", 0.5, 2.0), ("old", 1.0, 1.0))

_HEAD = """\
# Policies

A policy decides how many of the eligible nodes supply performance, and which. `POLICY_TYPE` selects it. Reserved,
cordoned and deleted nodes are not eligible. Where a policy plans a number of nodes, these are the densest (cores, clock
and GPUs; then by name), and each hardware family keeps its densest node in performance as long as the number has room
for one of each. A policy does not decide when a node may change: a node that runs performance pods drains first.

Each plot shows the number of performance nodes over the number of active performance pods, including pending ones, at
the default settings. [Extending Joulie](extending.md) shows how to add a policy.

This page is generated: `just docs`.
"""


def main() -> int:
    """Write page and plots, or check the page."""
    status = finish(_DOCS / "policies.md", page(), "just docs")
    if "--check" not in sys.argv[1:]:
        for name in POLICIES:
            _plot(name)
    return status


def page() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *(line for name in POLICIES for line in _section(name))])


def _section(name: str) -> Iterator[str]:
    settings = POLICIES[name].settings
    doc = inspect.cleandoc(sys.modules[settings.__module__].__doc__ or "")
    yield f"## {name}\n"
    yield f"{doc}\n"
    if settings.model_fields:
        yield "| variable | default | meaning |"
        yield "|---|---|---|"
        for field, info in settings.model_fields.items():
            yield f"| `{field.upper()}` | `{info.default}` | {cell(info.description or '')} |"
        yield ""
    yield f"![Performance nodes over performance pods](img/policy-{name}.png)\n"


def _plot(name: str) -> None:
    policy, demands = build_policy(name, {}), range(0, _MOST_PODS + 1, _STEP)
    figure = Figure(figsize=(6, 3.2))
    axes = figure.subplots()
    for size in _SIZES:
        nodes = list(_cluster(size))
        counts = [policy.plan(PolicyContext(nodes, pods, 0.0, 60.0)).performance_count for pods in demands]
        axes.plot(demands, counts, label=f"{size} nodes")
    axes.set(xlabel="active performance pods", ylabel="performance nodes", title=name, ylim=(0, 105))
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    figure.savefig(_DOCS / "img" / f"policy-{name}.png", dpi=100, bbox_inches="tight", metadata={"Software": None})


def _cluster(size: int) -> Iterator[Candidate]:
    for number in range(size):
        family, _, density = next(each for each in _FAMILIES if number < each[1] * size)
        yield Candidate(NodeName(f"{family}-{number}"), density, family)


if __name__ == "__main__":
    sys.exit(main())
