"""Poison in everything that Joulie's services watch or read, each alone among 50 good ones.

    just hostile                                  5,000 cases on a real API server
    just hostile --forged --cases 100000      also what a real API server refuses, from a server in this process
    just hostile --seed 3 --round 17 --subject Pod  one case again
    just hostile --without operator:decoding      a bulkhead patched away: the campaign must fail

Fails where a process ends, /healthz takes longer than a second, memory exceeds the chart's limit, a good object is
served otherwise than before, a service no longer reacts to a good object, or a defect of Joulie is counted. A seed
gives the same cases again.
"""

import argparse
import asyncio
import logging
import sys
import tempfile
from pathlib import Path

import structlog
from tools.hostile.campaign import SUBJECTS, Campaign, describe, limits_by_name, summary
from tools.hostile.services import SERVICES
from tools.hostile.site import run_site
from tools.hostile.without import BULKHEADS


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--forged", action="store_true", help="an API server that has what a real one refuses")
    parser.add_argument("--subject", action="append", choices=SUBJECTS, help="only these; may be repeated")
    parser.add_argument("--round", type=int, help="one round of the seed again")
    pairs = [f"{service}:{bulkhead}" for service in SERVICES for bulkhead in BULKHEADS]
    parser.add_argument("--without", choices=pairs, default=":", help="a bulkhead that is patched away in a service")
    parser.add_argument("--no-search", action="store_true", help="do not look for the culprit of a violation")
    parser.add_argument("--keep", type=Path, help="directory of the logs; a temporary one without it")
    return parser.parse_args()


async def _run(options: argparse.Namespace, directory: Path) -> int:
    without = dict([options.without.split(":")])
    async with run_site(directory, real=not options.forged, without=without) as site:
        campaign = Campaign(site, seed=options.seed, subjects=options.subject or SUBJECTS)
        if options.round is not None:
            wrong, cases = await campaign.round(options.round, options.subject or SUBJECTS, patient=True)
            print("\n".join(f"{case.subject}: {case.label}{'' if case.planted else ' (refused)'}" for case in cases))
            print("\n".join(f"VIOLATION {service}: {what}" for service, what in wrong) or "nothing is wrong")
            return 1 if wrong else 0
        outcome = await campaign.run(
            options.cases, progress=lambda text: print(text, flush=True), search=not options.no_search
        )
        print(summary(outcome, limits=limits_by_name(site)))
        print("\n".join(describe(each, options.seed) for each in outcome.violations))
        return 1 if outcome.violations else 0


def main() -> int:
    """Run the campaign of the command line; 1 where something was found."""
    options = _arguments()
    logging.disable(logging.CRITICAL)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with tempfile.TemporaryDirectory() as temporary:
        directory = options.keep or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        return asyncio.run(_run(options, directory))


if __name__ == "__main__":
    sys.exit(main())
