"""`joulie-sim try`: kube-scheduler alone against Joulie, as a first answer to what Joulie saves."""

import argparse
import sys
from pathlib import Path
from typing import Final

from rich.console import Console

from joulie_core.policy import static_partition
from joulie_sim.commands.execution import simulate
from joulie_sim.commands.inputs import (
    INPUT_ERRORS,
    add_arms,
    add_inputs,
    jobs_from,
    machines_from,
    replay_from,
)
from joulie_sim.commands.plot import write_power_plot
from joulie_sim.commands.tables import replay_notes, saving_table
from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.machines import Machines
from joulie_sim.engine.results import Manifest, read_manifest

_EPILOG: Final = """\
Without other arguments, a synthetic day of 20 nodes. The first arm is what the others are compared with.

examples:
  joulie-sim try
  joulie-sim try --recording tuesday
"""
_EXIT_USAGE: Final = 2
_BASELINE: Final = "kube_default"
#: What Joulie can do today: as it ships, with the score that counts joules, and with a reserve ahead of demand.
_ARMS: Final = (_BASELINE, static_partition.NAME, "static_energy", "queue_lead_energy")
_LIMITS: Final = (
    "One run, modelled power: less than 1 % is chance. Not modelled: API server, agents, network, affinity."
)


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "try",
        help="kube-scheduler alone against Joulie, in a table",
        description="Simulate the same pods on the same nodes with kube-scheduler alone and with Joulie; show energy, "
        "and which pods took longer.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arms(parser)
    parser.add_argument("--seed", type=int, default=0, help="of the workload and of the choice among equal nodes")
    parser.add_argument("--out", type=Path, default=Path("out/try"), metavar="DIR", help="(default out/try)")
    add_inputs(parser)
    parser.set_defaults(run=run, arms=list(_ARMS), node_count=20, job_count=3000, load=0.45)


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-command; 0, or 2 with a message for inputs it cannot use."""
    console = Console()
    try:
        machines = machines_from(arguments)
        if arguments.recording:
            console.print(replay_notes(replay_from(arguments)))
        manifests = [_simulated(arguments, machines, arm) for arm in arguments.arms]
        picture = arguments.out / "power.png"
        write_power_plot(picture, [arguments.out / arm for arm in arguments.arms])
    except INPUT_ERRORS as error:
        sys.stderr.write(f"joulie-sim try: {error}\n")
        return _EXIT_USAGE
    console.print(saving_table(_title(arguments, manifests[0]), manifests))
    for arm in arguments.arms:
        console.print(f"{arm}: {ARMS[arm].summary}", markup=False, highlight=False)
    console.print(_LIMITS, highlight=False)
    console.print(f"picture: {picture}", markup=False, highlight=False, soft_wrap=True)
    return 0


def _simulated(arguments: argparse.Namespace, machines: Machines, arm: str) -> Manifest:
    jobs = jobs_from(arguments, machines, seed=arguments.seed, load=arguments.load)
    out = arguments.out / arm
    simulate(arguments, machines, jobs, arm=arm, seed=arguments.seed, load=arguments.load, out=out)
    return read_manifest(out)


def _title(arguments: argparse.Namespace, manifest: Manifest) -> str:
    pods = f"the same {manifest.summary.jobs:,} pods on the same {manifest.nodes} nodes"
    if arguments.recording:
        return f"{arguments.recording}: {pods}"
    if arguments.jobs:
        return f"{arguments.jobs}: {pods}"
    return f"{pods}, {arguments.hours:g} h at {arguments.load:.0%} load"
