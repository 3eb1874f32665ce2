"""Command-line options of the demo."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from joulie_api.presets import DEFAULT_PRESET, PRESETS, PresetName
from joulie_core.policy.registry import POLICIES
from joulie_sim.demo.time_scale import TimeScale

#: Of a run in which nodes sleep: a second of the clock is a minute. Boots of ten minutes then take ten seconds, and
#: the second in which kube-scheduler tries a pod again at the earliest is a tenth of that.
_SLEEPING: Final = TimeScale(60.0)
_UNSCALED: Final = TimeScale(1.0)
#: Each has a BMC that is served over TLS.
_MOST_SLEEPING: Final = 200
_NODES: Final = 40
_PODS: Final = 400
_DURATION_S: Final = 180.0
_TRACE_PODS: Final = 900
_TRACE_DURATION_S: Final = 300.0
_TRACE_SCALE: Final = 0.1
_DAY_PODS: Final = 1200
_DAY_DURATION_S: Final = 600.0
_MOST_NODES: Final = 5000
_MOST_PODS: Final = 20_000
_DESCRIPTION: Final = """\
Start a control plane and a simulated cluster on this machine, run a workload under Joulie, show power and placement,
and compare with the same pods without Joulie. Nodes that nothing needs are powered off by simulated BMCs, and woken; a
second of the clock is a minute then. Ends by itself or with Ctrl-C. Results are written to a new directory.
"""
_EPILOG: Final = """\
examples:
  joulie-demo                           3 hours of 40 nodes and 400 pods in 3 minutes, nodes sleep (`just demo`)
  joulie-demo --preset score            no node sleeps, times are not scaled
  joulie-demo --preset documents        half of the nodes eco and capped, as the project's documents describe
  joulie-demo --policy queue_aware_v1   eco nodes as performance pods leave room for
  joulie-demo --keep                    then `kubectl get nodetwins`, and the live page whose address is printed
  joulie-demo --day                     a day without and with nodes that sleep, 20 minutes
  joulie-demo --kind                    the same nodes in a kind cluster (`just kind-up`, `just kind-demo`)

With --kind, operator, extender and kube-scheduler are those of the kind cluster: the chart is installed, or upgraded
with its values kept, after the images of this checkout are loaded. Simulated nodes have the label and the taint
sim.joulie.io/simulated, so that other pods keep off them. At the end the demo's pods and nodes are deleted; the release
`joulie` stays, with the settings of the demo (`helm rollback joulie`, `helm uninstall joulie`).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a run.

    `trace` is the directory of the openb trace; None generates a workload for `nodes` nodes. With `day` the run is a
    day of 24 hours, without and with nodes that sleep. `kind` adds the nodes to the cluster of `just kind-up` instead
    of starting a development cluster. `policy` plans in place of that of the preset; None leaves the preset as it is.
    """

    nodes: int
    pods: int
    duration_s: float
    seed: int
    preset: PresetName
    policy: str | None
    trace: Path | None
    scale: float
    out: Path
    keep: bool
    day: bool
    kind: bool

    @property
    def sleeps(self) -> bool:
        """Whether idle nodes are powered off."""
        return self.policy is None and PRESETS[self.preset].sleeps

    @property
    def time_scale(self) -> TimeScale:
        """Scale of the times of a run that is no day."""
        return _SLEEPING if self.sleeps else _UNSCALED

    @property
    def steered_by(self) -> str:
        """Policy or preset that steers the nodes, for titles."""
        return f"preset {self.preset}" if self.policy is None else self.policy


def parse_options(argv: Sequence[str]) -> Options:
    """Parse the command line; argparse exits the process if it is invalid."""
    parser = _parser()
    found = parser.parse_args(argv)
    trace: Path | None = None
    if found.day and any((found.trace, found.policy, found.preset, found.keep)):
        parser.error("--day cannot be used with --trace, --policy, --preset or --keep: it runs two clusters of its own")
    if found.day and found.kind:
        parser.error("--day cannot be used with --kind: its nodes sleep in a cluster of its own")
    if found.trace is not None:
        kind, path = found.trace
        if kind != "openb":
            parser.error(f"--trace {kind}: the only supported trace is openb")
        if found.nodes is not None:
            parser.error("--nodes cannot be used with --trace: set the share of the trace's nodes with --scale")
        trace = Path(path)
    elif found.scale is not None:
        parser.error("--scale can only be used with --trace: set the number of nodes with --nodes")
    preset = _preset(found)
    if PRESETS[preset].sleeps:
        _check_sleeping(parser, found)
    pods, duration_s = _PODS, _DURATION_S
    if trace is not None:
        pods, duration_s = _TRACE_PODS, _TRACE_DURATION_S
    elif found.day:
        pods, duration_s = _DAY_PODS, _DAY_DURATION_S
    return Options(
        nodes=found.nodes if found.nodes is not None else _NODES,
        pods=found.pods if found.pods is not None else pods,
        duration_s=found.duration if found.duration is not None else duration_s,
        seed=found.seed,
        preset=preset,
        policy=found.policy,
        trace=trace,
        scale=found.scale if found.scale is not None else _TRACE_SCALE,
        out=found.out,
        keep=found.keep,
        day=found.day,
        kind=found.kind,
    )


def _preset(found: argparse.Namespace) -> PresetName:
    """Return the preset; a policy without one stands beside the score that knows of eco nodes."""
    if found.preset is not None:
        return PresetName(found.preset)
    if found.policy is not None:
        return PresetName.DOCUMENTS
    return DEFAULT_PRESET if found.trace is not None or found.kind else PresetName.SLEEP


def _check_sleeping(parser: argparse.ArgumentParser, found: argparse.Namespace) -> None:
    """End the process if nodes cannot sleep in such a run."""
    if found.kind:
        parser.error(f"--preset {PresetName.SLEEP} cannot be used with --kind: its nodes have no BMCs")
    if found.trace is not None:
        parser.error(f"--preset {PresetName.SLEEP} cannot be used with --trace: its times are not scaled")
    if found.nodes is not None and found.nodes > _MOST_SLEEPING:
        parser.error(f"more than {_MOST_SLEEPING} nodes have no BMCs: choose --preset {DEFAULT_PRESET}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="joulie-demo",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--nodes", type=_whole(1, _MOST_NODES), help=f"nodes of the mixed cluster (default {_NODES})")
    add(
        "--pods",
        type=_whole(1, _MOST_PODS),
        help=f"pods of the workload (default {_PODS}; {_TRACE_PODS} of a trace, {_DAY_PODS} of a day)",
    )
    add(
        "--duration",
        type=_between(20.0, 86_400.0),
        metavar="SECONDS",
        help=f"duration of the workload by the clock (default {_DURATION_S:.0f}; {_TRACE_DURATION_S:.0f} of a trace,"
        f" {_DAY_DURATION_S:.0f} of a day)",
    )
    add("--seed", type=int, default=1, help="seed of the generated workload (default 1)")
    steering = parser.add_mutually_exclusive_group()
    steering.add_argument(
        "--preset",
        choices=tuple(map(str, PRESETS)),
        help=f"settings of operator and extender: docs/presets.md (default {PresetName.SLEEP}, whose times are scaled;"
        f" {DEFAULT_PRESET} with --trace and --kind)",
    )
    steering.add_argument(
        "--policy", choices=sorted(POLICIES), help=f"policy of the operator, with the preset {PresetName.DOCUMENTS}"
    )
    add(
        "--trace",
        nargs=2,
        metavar=("openb", "PATH"),
        help="replay the openb-2023 trace, whose files are in directory PATH, instead of a generated workload",
    )
    add(
        "--scale",
        type=_between(0.001, 1.0),
        help=f"share of the trace's nodes, at least one of each kind (default {_TRACE_SCALE})",
    )
    add(
        "--day",
        action="store_true",
        help="a day of 24 hours in --duration seconds, first without and then with nodes that sleep",
    )
    add("--out", type=Path, default=Path("out"), help="parent of the new directory with the results (default out)")
    add("--keep", action="store_true", help="keep everything running at the end, until Ctrl-C")
    add("--kind", action="store_true", help="add the nodes to the kind cluster that `just kind-up` has made")
    return parser


def _whole(low: int, high: int) -> "_Range":
    return _Range(int, low, high)


def _between(low: float, high: float) -> "_Range":
    return _Range(float, low, high)


@dataclass(frozen=True, slots=True)
class _Range:
    """An argparse type: a number in a range."""

    kind: type[int] | type[float]
    low: float
    high: float

    def __call__(self, text: str) -> int | float:
        try:
            value = self.kind(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number") from error
        if not self.low <= value <= self.high:
            raise argparse.ArgumentTypeError(f"{text} is not between {self.low:g} and {self.high:g}")
        return value
