"""Writes docs/mutation.md, the list of modules whose tests were tried on mutants, from tools/mutants/shares.jsonl."""

import sys
from typing import Final

from tools.generated import ROOT, finish
from tools.mutants import modules, shares

_ACTING: Final = modules.read_acting()
_PACKAGES: Final = "\n".join(f"- `{package}`" for package in _ACTING.packages)

_HEAD: Final = f"""\
# Mutation testing

A mutant is a module with one small change: another operator, another constant, a call left out. A mutant that no test
notices shows what the tests leave open. At least {shares.ENOUGH_PCT:.0f} % of the mutants of every module that acts
have to be noticed by the tests beside the module. A module acts that writes to the API server, to hardware or to a BMC,
or that answers kube-scheduler; its package is one of these:

{_PACKAGES}

`tests/integration/test_mutation_shares.py` checks that each module of these packages has its line below, or stands
among those that [were not measured](#not-measured). Mutants that behave like the original do not count;
`tools/mutants/equivalent.toml` has each of them, with the reason.

`just mutants MODULE` shows what survives in one module, `just mutants MODULE TESTS --record` renews its line below. CI
tries those again that changed since, as far as that takes less than two minutes in all
(`just mutants --changed --within 120`).
Why this is not done by mutmut alone: [decision 27](decisions/0027-mutation-testing.md).

This page is generated: `just docs`.

| module | mutants | noticed | equivalent | share | date | tests |
|---|---|---|---|---|---|---|
"""

_UNMEASURED: Final = """
## Not measured

These modules act, too, or belong to the packages that do, and their tests were not tried on mutants
(`tools/mutants/acting.toml`).

| module | reason |
|---|---|
"""


def page() -> str:
    """Return the page."""
    rows = (
        f"| `{name}` | {share.mutants} | {share.killed} | {share.equivalent} | {share.pct:.1f} % | {share.date} |"
        f" {', '.join(f'`{test}`' for test in share.tests)} |\n"
        for name, share in shares.read().items()
    )
    unmeasured = (f"| `{module}` | {reason} |\n" for module, reason in sorted(_ACTING.unmeasured.items()))
    return _HEAD + "".join(rows) + _UNMEASURED + "".join(unmeasured)


if __name__ == "__main__":
    sys.exit(finish(ROOT / "docs/mutation.md", page(), "just docs"))
