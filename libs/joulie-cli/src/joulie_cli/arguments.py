"""The command line of `kubectl joulie`: what is common to its verbs, each of which is a module of `joulie_cli.verbs`.

Such a module has `add_parser`, which adds the verb with its arguments, and `run`, which carries it out.
"""

import argparse
import textwrap
from collections.abc import Awaitable, Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, Final, NoReturn

from joulie_cli.output import ExitCode
from joulie_core.durations import DurationError, parse_duration

#: In the order of the help.
VERBS: Final = (
    "status",
    "nodes",
    "top",
    "explain",
    "why-pending",
    "profile",
    "devices",
    "energy",
    "doctor",
    "events",
    "sleep",
    "savings",
    "power",
    "event",
    "wake",
    "maintenance",
    "completion",
)
PROG: Final = "kubectl joulie"
MANAGED: Final = "joulie.io/managed=true"
_HELP_WIDTH: Final = 79
_DAY_S: Final = 86_400.0
#: Digits of a number of days, so that it is no huge number.
_MOST_DIGITS: Final = 6
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
  3  the API server, the extender or Prometheus cannot be reached, forbids a
     request, or does not have what is asked for

Permissions: the ClusterRole joulie-viewer of the chart; wake and maintenance
need to patch nodes as well.
docs/kubectl-joulie.md has the output of every verb.
"""


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        self.exit(ExitCode.USAGE, f"error: {message}\n{self.prog} --help has an example\n")


def make_parser(verbs: Iterable[str] = VERBS) -> argparse.ArgumentParser:
    """Return the parser of these verbs; `options.run` carries the verb out."""
    return make_parsers(verbs)[0]


def make_parsers(verbs: Iterable[str] = VERBS) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Return the parser, and those of the verbs by name. Only the modules of these verbs are imported."""
    parser = _Parser(prog=PROG, description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument("--version", action="store_true", help="print the version")
    added = parser.add_subparsers(dest="verb", metavar="VERB", parser_class=_Parser)
    for name in verbs:
        import_module(f"joulie_cli.verbs.{name.replace('-', '_')}").add_parser(added)
    return parser, dict(added.choices)


def add_verb(
    verbs: Any,
    name: str,
    run: Callable[[argparse.Namespace], Awaitable[ExitCode]],
    *,
    summary: str,
    description: str,
    example: str,
    parents: Sequence[argparse.ArgumentParser] = (),
) -> argparse.ArgumentParser:
    """Add a verb and return its parser; the help ends with the example.

    Args:
        verbs: what `add_subparsers` has returned.
        name: of the verb.
        run: carries it out.
        summary: what it does, in a few words.
        description: what its output means.
        example: commands, a line each.
        parents: arguments that it shares with others.
    """
    made: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.\n\n{textwrap.fill(description, _HELP_WIDTH)}",
        epilog="example:\n" + "\n".join(f"  {each}" for each in example.splitlines()),
        parents=parents,
    )
    made.set_defaults(run=run)
    return made


def cluster_options() -> argparse.ArgumentParser:
    """Return the options that choose the cluster."""
    parent = _Parser(add_help=False)
    group = parent.add_argument_group("cluster")
    group.add_argument("--kubeconfig", metavar="FILE", help="kubeconfig; KUBECONFIG or ~/.kube/config by default")
    group.add_argument("--context", metavar="NAME", help="context of the kubeconfig; its current one by default")
    return parent


def format_option(*, wide: bool = True) -> argparse.ArgumentParser:
    """Return the option for the format, with `wide` or without."""
    parent = _Parser(add_help=False)
    formats = ("table", "wide", "json", "yaml") if wide else ("table", "json", "yaml")
    parent.add_argument("-o", "--output", choices=formats, default="table", help="format; table by default")
    return parent


def selector_option() -> argparse.ArgumentParser:
    """Return the option that selects the managed nodes."""
    parent = _Parser(add_help=False)
    parent.add_argument(
        "-l",
        "--selector",
        default=MANAGED,
        metavar="LABELS",
        help=f"label selector of the managed nodes, as NODE_SELECTOR of the operator; {MANAGED} by default",
    )
    return parent


def namespace_option(*, all_of_them: bool = False) -> argparse.ArgumentParser:
    """Return the option for the namespace, of which the default is all of them or that of the context."""
    parent = _Parser(add_help=False)
    default = "all of them by default" if all_of_them else "that of the context by default"
    parent.add_argument("-n", "--namespace", metavar="NAME", help=f"namespace; {default}")
    return parent


def time_back(text: str, *, least_s: float, most_s: float, example: str) -> float:
    """Return the seconds of a time such as `90m`, `24h` or `30d`: a duration, or a whole number of days.

    Args:
        text: of an option.
        least_s: the shortest time, in seconds.
        most_s: the longest.
        example: the form and the bounds, for the message.

    Raises:
        argparse.ArgumentTypeError: it is none, or not within the bounds.
    """
    days = text.removesuffix("d")
    try:
        if days != text and days.isascii() and days.isdecimal() and len(days) <= _MOST_DIGITS:
            seconds = int(days) * _DAY_S
        else:
            seconds = parse_duration(text)
    except DurationError:
        seconds = 0.0
    if not least_s <= seconds <= most_s:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time as {example}")
    return seconds
