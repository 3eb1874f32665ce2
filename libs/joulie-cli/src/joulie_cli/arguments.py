"""The command line of `kubectl joulie`. Light to import: completion reads it at every key."""

import argparse
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from joulie_cli.outcome import ExitCode
from joulie_core.durations import DurationError, parse_duration
from joulie_core.text import printable

PROG: Final = "kubectl joulie"
MANAGED: Final = "joulie.io/managed=true"
SORTS: Final = ("name", "watts", "headroom", "cap", "profile", "age")
_HELP_WIDTH: Final = 79
#: Characters of the reason of a maintenance.
_LONGEST_REASON: Final = 200
_LONGEST_S: Final = 365 * 86400.0
_DESCRIPTION: Final = """\
Shows what Joulie does in a cluster, and why. Only wake and maintenance change
anything.
What is unknown is shown as - or unknown, never as 0."""
_EPILOG: Final = """\
exit codes:
  0  done; for doctor: nothing found
  1  doctor found something to act on; wake: a node does not wake, or not in
     time
  2  the command line is wrong
  3  the API server or the extender cannot be reached, forbids a request, or
     does not have the object

Permissions: the ClusterRole joulie-viewer of the chart; wake and maintenance
need to patch nodes as well.
docs/kubectl-joulie.md has the output of every verb.
"""


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        self.exit(ExitCode.USAGE, f"error: {message}\n{self.prog} --help has an example\n")


def make_parser() -> argparse.ArgumentParser:
    """Return the parser; `options.verb` is the verb, and with it the module of `joulie_cli.commands`."""
    return make_parsers()[0]


def make_parsers() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Return the parser, and those of the verbs by name."""
    parser = _Parser(prog=PROG, description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument("--version", action="store_true", help="print the version")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", parser_class=_Parser)
    for name, add in VERBS.items():
        add(verbs, name)
    return parser, dict(verbs.choices)


def _verb(
    verbs: Any,
    name: str,
    *,
    summary: str,
    description: str,
    example: str,
    parents: Sequence[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    """Add a verb; its help ends with an example."""
    made: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.\n\n{textwrap.fill(description, _HELP_WIDTH)}",
        epilog="example:\n" + "\n".join(f"  {each}" for each in example.splitlines()),
        parents=parents,
    )
    return made


def _connection() -> argparse.ArgumentParser:
    parent = _Parser(add_help=False)
    group = parent.add_argument_group("cluster")
    group.add_argument("--kubeconfig", metavar="FILE", help="kubeconfig; KUBECONFIG or ~/.kube/config by default")
    group.add_argument("--context", metavar="NAME", help="context of the kubeconfig; its current one by default")
    return parent


def _format(*, wide: bool = True) -> argparse.ArgumentParser:
    parent = _Parser(add_help=False)
    formats = ("table", "wide", "json", "yaml") if wide else ("table", "json", "yaml")
    parent.add_argument("-o", "--output", choices=formats, default="table", help="format; table by default")
    return parent


def _nodes_selector() -> argparse.ArgumentParser:
    parent = _Parser(add_help=False)
    parent.add_argument(
        "-l",
        "--selector",
        default=MANAGED,
        metavar="LABELS",
        help=f"label selector of the managed nodes, as NODE_SELECTOR of the operator; {MANAGED} by default",
    )
    return parent


def _add_status(verbs: Any, name: str) -> None:
    _verb(
        verbs,
        name,
        summary="overview of the cluster",
        description="Whether operator, agents and extender run, nodes by profile and class, their power, caps that "
        "are blocked, twins that are stale, nodes that sleep. A node that is asleep is in no sum of watts.",
        example="kubectl joulie status\nkubectl joulie status -o json | jq .power",
        parents=[_connection(), _format(wide=False), _nodes_selector()],
    )


def _add_nodes(verbs: Any, name: str) -> None:
    parser = _verb(
        verbs,
        name,
        summary="one row for each managed node",
        description="PROFILE is the profile of the target, with the class in the twin where that differs "
        "(eco/draining); of a node that sleeps, goes to sleep or is waking it is that state (asleep). "
        "HEADROOM is the free share of the cap, CAP what the caps of CPUs and GPUs allow "
        "together, AGE the time since the twin was updated. A ! behind the backend: a cap is blocked or "
        "failed. -o wide has all columns.",
        example="kubectl joulie nodes --sort watts\nkubectl joulie nodes worker-1 worker-2 -o wide",
        parents=[_connection(), _format(), _nodes_selector()],
    )
    parser.add_argument("names", nargs="*", metavar="NODE", help="only these nodes")
    parser.add_argument("--sort", choices=SORTS, default="name", help="order; name by default, unknown values last")


def _add_top(verbs: Any, name: str) -> None:
    parser = _verb(
        verbs,
        name,
        summary="the nodes, live",
        description="The columns of nodes, refreshed by watches, and how many sleep. Keys: q quits; n w h c p a sort "
        "by name, watts, headroom, cap, profile, age; j k, arrows, space, page keys, g G scroll. Needs a terminal, "
        "80x24 is enough.",
        example="kubectl joulie top --sort headroom",
        parents=[_connection(), _nodes_selector()],
    )
    parser.add_argument("--sort", choices=SORTS, default="watts", help="order; watts by default")


def _add_completion(verbs: Any, name: str) -> None:
    parser = _verb(
        verbs,
        name,
        summary="script for the completion of a shell",
        description="Completes kubectl-joulie. kubectl itself completes `kubectl joulie` where "
        "kubectl_complete-joulie, which is installed beside this program, is on PATH.",
        example="source <(kubectl joulie completion bash)",
        parents=[],
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")


def _namespace(*, all_of_them: bool = False) -> argparse.ArgumentParser:
    parent = _Parser(add_help=False)
    default = "all of them by default" if all_of_them else "that of the context by default"
    parent.add_argument("-n", "--namespace", metavar="NAME", help=f"namespace; {default}")
    return parent


def _extender_url() -> argparse.ArgumentParser:
    parent = _Parser(add_help=False)
    parent.add_argument(
        "--extender-url",
        metavar="URL",
        help="address of the extender, such as http://localhost:9876; by default the API server's proxy of its Service",
    )
    return parent


def _add_explain(verbs: Any, name: str) -> None:
    parser = _verb(
        verbs,
        name,
        summary="the extender's view of a pod or a node",
        description="For a pod: the score of each node with all its terms, and which nodes are refused and why. For a "
        "node: what the extender knows of it, and which pods it allows there; of one that sleeps also why, and what "
        "wakes it.",
        example="kubectl joulie explain pod train-0 -n ml\nkubectl joulie explain node worker-1",
        parents=[_connection(), _format(), _nodes_selector(), _namespace(), _extender_url()],
    )
    parser.add_argument("what", choices=("pod", "node"), help="what to explain")
    parser.add_argument("name", metavar="NAME", help="name of the pod or node")
    parser.add_argument("--node", action="append", metavar="NAME", help="candidate; all managed nodes by default")
    parser.add_argument("--most", type=int, default=10, metavar="N", help="nodes that are listed; 10 by default")


def _add_why_pending(verbs: Any, name: str) -> None:
    parser = _verb(
        verbs,
        name,
        summary="what keeps a pod from a node",
        description="Its last Events, its workload class and why it has it, which managed nodes would be refused, and "
        "what to change or to wait for. Does not need the extender.",
        example="kubectl joulie why-pending train-0 -n ml",
        parents=[_connection(), _format(wide=False), _nodes_selector(), _namespace()],
    )
    parser.add_argument("name", metavar="POD", help="name of the pod")


def _add_profile(verbs: Any, name: str) -> None:
    parser = _verb(
        verbs,
        name,
        summary="target, result and history of a node",
        description="What NodePowerProfile asks of the node, what its agent reports as in force, the conditions since "
        "when, and the last Events.",
        example="kubectl joulie profile worker-1",
        parents=[_connection(), _format(wide=False)],
    )
    parser.add_argument("name", metavar="NODE", help="name of the node")


def _add_doctor(verbs: Any, name: str) -> None:
    _verb(
        verbs,
        name,
        summary="what is wrong, and the way out",
        description="Checks CRDs, versions, services, roles, kube-scheduler, targets, agents, twins, caps, labels, "
        "BMCs and nodes that sleep; pods on nodes that are off are left out. "
        "What this user may not read is reported as not checked. Exit code 1 if anything was found.",
        example="kubectl joulie doctor\nkubectl joulie doctor -o json | jq '.checks[] | select(.state == \"finding\")'",
        parents=[_connection(), _format(wide=False), _nodes_selector()],
    )


def _add_events(verbs: Any, name: str) -> None:
    parser = _verb(
        verbs,
        name,
        summary="Events of Joulie, newest last",
        description="Transitions of nodes, caps that the hardware refuses, annotations that cannot be read. "
        "Kubernetes keeps Events for an hour, unless it is configured otherwise.",
        example="kubectl joulie events -w\nkubectl joulie events -n ml -o json",
        parents=[_connection(), _format(wide=False), _namespace(all_of_them=True)],
    )
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces, whatever -n says")
    parser.add_argument("-w", "--watch", action="store_true", help="print further Events as they come, until Ctrl-C")


def _add_sleep(verbs: Any, name: str) -> None:
    parser = _verb(
        verbs,
        name,
        summary="nodes that sleep, and what that saves",
        description="Who sleeps, goes to sleep or is waking, since when and why; power cycles within 24 hours (TODAY) "
        "and ever; the watts that are not drawn, from what the BMC measured before the node was put to sleep or from "
        "the model of its hardware; and of each policy what wakes its nodes and why others stay awake.",
        example="kubectl joulie sleep\nkubectl joulie sleep --policy night -o json | jq .sums",
        parents=[_connection(), _format(wide=False)],
    )
    parser.add_argument("--policy", metavar="NAME", help="only this NodeSleepPolicy and its nodes")


def _add_wake(verbs: Any, name: str) -> None:
    parser = _verb(
        verbs,
        name,
        summary="wake nodes that sleep",
        description="Requests nodes to be awake for a time: the operator powers them on, some at a time, and puts them "
        "to sleep again only after it. A node that is still being drained for sleep takes pods again at once; one "
        "that is awake stays so. A longer request that is there already stays. A node in maintenance is not woken, and "
        "one in quarantine only with --clear-quarantine, after you have seen its console and its BMC. "
        "With --wait the command ends with 0 only once all of them are awake.",
        example="kubectl joulie wake worker-3 --for 4h\nkubectl joulie wake --all --wait\n"
        "kubectl joulie wake --all --clear-quarantine",
        parents=[_connection(), _format(wide=False)],
    )
    parser.add_argument("names", nargs="*", metavar="NODE", help="the nodes")
    parser.add_argument("--all", action="store_true", help="all nodes that sleep, go to sleep or are waking")
    parser.add_argument(
        "--for",
        dest="awake_s",
        type=_duration,
        default="1h",
        metavar="DURATION",
        help="how long, as 90m; 1h by default",
    )
    parser.add_argument(
        "--clear-quarantine",
        action="store_true",
        help="clear the quarantine of nodes whose boots have failed, and do nothing else",
    )
    parser.add_argument("--wait", action="store_true", help="follow the nodes until they are awake")
    parser.add_argument(
        "--timeout",
        dest="timeout_s",
        type=_duration,
        default="30m",
        metavar="DURATION",
        help="how long --wait waits; 30m by default",
    )


def _add_maintenance(verbs: Any, name: str) -> None:
    parser = _verb(
        verbs,
        name,
        summary="keep Joulie away from servers that people work on",
        description="While a node is in maintenance Joulie neither puts it to sleep nor wakes it, whatever is "
        "requested; one that sleeps stays off and takes no pods. Pods of a node that is awake stay: kubectl drain "
        "moves them. The condition joulie.io/Asleep of the Node has reason and user; that it is in maintenance is also "
        "in the status of its NodeSleepPolicy and, while its server is off, of its NodeBMC, and in doctor.",
        example='kubectl joulie maintenance worker-3 --reason "new fan"\nkubectl joulie maintenance worker-3 --end',
        parents=[_connection(), _format(wide=False)],
    )
    parser.add_argument("names", nargs="+", metavar="NODE", help="the nodes")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--reason", type=_reason, metavar="TEXT", help="begin, or change why")
    what.add_argument("--end", action="store_true", help="end it")


def _reason(text: str) -> str:
    shown = printable(text.strip(), _LONGEST_REASON)
    if not shown:
        raise argparse.ArgumentTypeError("say why, in a few words")
    return shown


def _duration(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except DurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if not 0 < seconds <= _LONGEST_S:
        raise argparse.ArgumentTypeError(f"not between 0 and a year: {text!r}")
    return seconds


#: What adds the parser of each verb, in the order of the help.
VERBS: Final[dict[str, Callable[[Any, str], None]]] = {
    "status": _add_status,
    "nodes": _add_nodes,
    "top": _add_top,
    "explain": _add_explain,
    "why-pending": _add_why_pending,
    "profile": _add_profile,
    "doctor": _add_doctor,
    "events": _add_events,
    "sleep": _add_sleep,
    "wake": _add_wake,
    "maintenance": _add_maintenance,
    "completion": _add_completion,
}
