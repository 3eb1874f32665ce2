"""Sleeping nodes under everything that happens, in virtual time.

0 pods cut, 0 servers off that Joulie does not name, 0 pods that wait although a sleeping node fits them:

    just sleep-campaign                              24 hours of 40 nodes
    just sleep-campaign --seeds 20 --hours 2         many short ones
    just sleep-campaign --seed 3 --without bmc-away  without a kind of event
    just sleep-campaign --only by-hand               with nothing else

The operator and the out-of-band service are the real ones, in this process. A seed gives the same events again.
"""

import argparse
import logging
import os
import sys

import structlog
from tools.sleep_campaign.campaign import CampaignPlan, describe, run_campaign
from tools.sleep_campaign.events import KINDS


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1, help="campaigns, with this seed and the next ones")
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--nodes", type=int, default=40)
    parser.add_argument(
        "--pace", type=float, default=1.0, help="how many times as often as usual anything but pods happens"
    )
    parser.add_argument("--only", action="append", choices=sorted(KINDS), help="kinds of events; may be repeated")
    parser.add_argument("--without", action="append", choices=sorted(KINDS), default=[], help="may be repeated")
    parser.add_argument("--enough", type=int, default=5, help="violations after which a campaign ends")
    parser.add_argument("--log", choices=("none", "warning", "info"), default="none", help="of the services")
    return parser.parse_args()


def main() -> int:
    """Run the campaigns of the command line; 1 where something was found."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Sets of names have an order of their own in each process otherwise.
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tools.sleep_campaign.run", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    options = _arguments()
    level = {"none": logging.CRITICAL, "warning": logging.WARNING, "info": logging.INFO}[options.log]
    logging.disable(level)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        processors=[structlog.processors.format_exc_info, structlog.processors.KeyValueRenderer(key_order=["event"])],
    )
    kinds = frozenset(options.only or KINDS) - set(options.without)
    failed = False
    for seed in range(options.seed, options.seed + options.seeds):
        plan = CampaignPlan(seed, options.hours, options.nodes, options.pace, kinds)
        result = run_campaign(plan, enough=options.enough, progress=lambda text: print(text, flush=True))
        print(describe(result), flush=True)
        failed = failed or bool(result.violations or result.defects)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
