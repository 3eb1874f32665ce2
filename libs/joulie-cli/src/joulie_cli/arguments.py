"""The command line of `kubectl joulie`. Light to import: completion reads it at every key."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from joulie_cli.outcome import ExitCode

PROG: Final = "kubectl joulie"
MANAGED: Final = "joulie.io/managed=true"
SORTS: Final = ("name", "watts", "headroom", "cap", "profile", "age")
_DESCRIPTION: Final = """\
Shows what Joulie does in a cluster, and why. Reads only. What is unknown is shown as - or unknown, never as 0."""
_EPILOG: Final = """\
exit codes:
  0  done; for doctor: nothing found
  1  doctor found something to act on
  2  the command line is wrong
  3  the API server or the extender cannot be reached, forbids a request, or does not have the object

Permissions: the ClusterRole joulie-viewer of the chart. docs/kubectl-joulie.md has the output of every verb.
"""


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        self.exit(ExitCode.USAGE, f"error: {message}\n{self.prog} --help has an example\n")


def make_parser() -> argparse.ArgumentParser:
    """Return the parser; `options.verb` is the verb, and with it the module of `joulie_cli.commands`."""
    parser = _Parser(prog=PROG, description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument("--version", action="store_true", help="print the version")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", parser_class=_Parser)
    for name, add in VERBS.items():
        add(verbs, name)
    return parser


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
        description=f"{summary[0].upper()}{summary[1:]}.\n\n{description}",
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
        description="Whether operator, agents and extender run, nodes by profile and class, their power, caps that\n"
        "are blocked, twins that are stale.",
        example="kubectl joulie status\nkubectl joulie status -o json | jq .power",
        parents=[_connection(), _format(wide=False), _nodes_selector()],
    )


def _add_nodes(verbs: Any, name: str) -> None:
    parser = _verb(
        verbs,
        name,
        summary="one row for each managed node",
        description="PROFILE is the profile of the target, with the class in the twin where that differs\n"
        "(eco/draining). HEADROOM is the free share of the cap, CAP what the caps of CPUs and GPUs allow\n"
        "together, AGE the time since the twin was updated. A ! behind the backend: a cap is blocked or\n"
        "failed. -o wide has all columns.",
        example="kubectl joulie nodes --sort watts\nkubectl joulie nodes worker-1 worker-2 -o wide",
        parents=[_connection(), _format(), _nodes_selector()],
    )
    parser.add_argument("names", nargs="*", metavar="NODE", help="only these nodes")
    parser.add_argument("--sort", choices=SORTS, default="name", help="order; name by default, unknown values last")


#: What adds the parser of each verb, in the order of the help.
VERBS: Final[dict[str, Callable[[Any, str], None]]] = {"status": _add_status, "nodes": _add_nodes}
