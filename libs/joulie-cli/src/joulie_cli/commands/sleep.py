"""`kubectl joulie sleep`: who sleeps, since when, why, and what that saves."""

import asyncio
import time
from argparse import Namespace

from joulie_api.resources import NODE_BMCS, NODE_SLEEP_POLICIES, NODES
from joulie_cli.cluster import connect
from joulie_cli.outcome import CliError, ExitCode
from joulie_cli.output import as_data, print_data, print_lines, terminal_width
from joulie_cli.render.sleep_report import report_lines
from joulie_cli.sleep_report import decode_bmc_note, decode_policy, decode_sleeping, make_report
from joulie_core.labels import SLEEP_STATE


async def run(options: Namespace) -> ExitCode:
    """Print the nodes that sleep and their policies."""
    async with connect(options) as cluster:
        nodes, bmcs, policies = await asyncio.gather(
            cluster.read(NODES, decode_sleeping, label_selector=SLEEP_STATE),
            cluster.read(NODE_BMCS, decode_bmc_note),
            cluster.read(NODE_SLEEP_POLICIES, decode_policy),
        )
    if options.policy is not None and options.policy not in {each.name for each in policies}:
        raise CliError(f"there is no NodeSleepPolicy {options.policy!r}", "kubectl get nodesleeppolicies lists them")
    found = make_report(nodes, bmcs, policies, policy=options.policy, now_s=time.time())
    if as_data(options):
        print_data(found.data(), options)
    else:
        print_lines(report_lines(found, terminal_width()))
    return ExitCode.OK
