"""Write docs/policies.md and its plots from the policies themselves: docstrings, settings, and what they answer.

Usage: python docs/policy_pages.py [--check]

The check compares the text only: pictures differ from one release of the plotting library to the next.
"""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

from matplotlib.figure import Figure

from joulie_core.names import NodeName
from joulie_core.policy import POLICIES, Candidate, PolicyContext, build_policy

_DOCS = Path(__file__).parent
_PAGE = _DOCS / "policies.md"
_SIZES = (20, 50, 100)
_MOST_PODS = 1_200
_STEP = 5
#: Nodes of one hardware family in the plots' clusters, as a share: a tenth with GPUs, four tenths new, the rest old.
_FAMILIES = (("gpu", 0.1, 8.0), ("new", 0.5, 2.0), ("old", 1.0, 1.0))

_HEAD = """\
# Policies

A policy decides how many of the eligible nodes supply full performance, and which. `POLICY_TYPE` selects it. Nodes that
are reserved, cordoned or on their way out are not eligible. Where a policy names a count, the densest nodes supply it
(cores, clock and GPUs; equal ones by name), and each hardware family keeps its densest node as long as the count has
room for one of each. What a plan means for a node that still runs performance pods, the policy does not decide: the
node drains first.

Each plot shows the number of performance nodes over the number of active performance pods, pending ones included, at
the default settings.

To add a policy, write one module under `joulie_core/policy` with its settings and its tests, and name it in
`registry.py`: the operator's environment, this page and the tests that hold for every policy follow.

This page is generated: `just docs`.
"""


def main() -> int:
    """Write page and plots, or with --check say whether the page is up to date."""
    text = "\n".join([_HEAD, *(line for name in POLICIES for line in _section(name))])
    if "--check" in sys.argv[1:]:
        if _PAGE.exists() and _PAGE.read_text() == text:
            return 0
        print(f"{_PAGE.name} is out of date: run `just docs` and commit what it writes", file=sys.stderr)
        return 1
    _PAGE.write_text(text)
    for name in POLICIES:
        _plot(name)
    return 0


def _section(name: str) -> Iterator[str]:
    settings = POLICIES[name].settings
    doc = inspect.cleandoc(sys.modules[settings.__module__].__doc__ or "")
    yield f"## {name}\n"
    yield f"{doc}\n"
    if settings.model_fields:
        yield "| variable | default | meaning |"
        yield "|---|---|---|"
        for field, info in settings.model_fields.items():
            yield f"| `{field.upper()}` | `{info.default}` | {' '.join((info.description or '').split())} |"
        yield ""
    yield f"![Performance nodes over performance pods](img/policy-{name}.png)\n"


def _plot(name: str) -> None:
    policy, demands = build_policy(name, {}), range(0, _MOST_PODS + 1, _STEP)
    figure = Figure(figsize=(6, 3.2))
    axes = figure.subplots()
    for size in _SIZES:
        nodes = list(_cluster(size))
        counts = [policy.plan(PolicyContext(nodes, pods, 0.0, 60.0)).hp_count for pods in demands]
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
