"""`kubectl joulie maintenance`: keeps Joulie away from servers that people work on.

It is the annotation `joulie.io/maintenance` of the Node: who, and why. The operator acts on it.
"""

import argparse
import getpass
from argparse import Namespace
from typing import Any, Final

from joulie_api.errors import NotFound
from joulie_api.resources import NODES
from joulie_cli.arguments import add_verb, cluster_options, format_option
from joulie_cli.cluster import FIELD_MANAGER, connect, permitted
from joulie_cli.layout import line
from joulie_cli.output import CliError, ExitCode, show
from joulie_cli.views.sleep import decode_sleeper
from joulie_core.labels import MAINTENANCE
from joulie_core.text import printable

#: Characters of the reason of a maintenance.
_LONGEST_REASON: Final = 200


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "maintenance",
        run,
        summary="keep Joulie away from servers that people work on",
        description="While a node is in maintenance Joulie neither puts it to sleep nor wakes it, whatever is "
        "requested; one that sleeps stays off and takes no pods. Pods of a node that is awake stay: kubectl drain "
        "moves them. The condition joulie.io/Asleep of the Node has reason and user; that it is in maintenance is also "
        "in the status of its NodeSleepPolicy and, while its server is off, of its NodeBMC, and in doctor.",
        example='kubectl joulie maintenance worker-3 --reason "new fan"\nkubectl joulie maintenance worker-3 --end',
        parents=[cluster_options(), format_option(wide=False)],
    )
    parser.add_argument("names", nargs="+", metavar="NODE", help="the nodes")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--reason", type=_reason, metavar="TEXT", help="begin, or change why")
    what.add_argument("--end", action="store_true", help="end it")


async def run(options: Namespace) -> ExitCode:
    """Begin or end the maintenance of the nodes, of which all must exist, and print them."""
    text = None if options.end else f"{_user()}: {options.reason}"
    names = list(dict.fromkeys(options.names))
    body = {"metadata": {"annotations": {MAINTENANCE: text}}}
    async with connect(options) as cluster:
        try:
            with permitted("maintenance needs get and patch on nodes"):
                for name in names:
                    await cluster.client.get(NODES, name)
                answers = [
                    await cluster.client.merge_patch(NODES, name, body, field_manager=FIELD_MANAGER) for name in names
                ]
        except NotFound as error:
            raise CliError(f"the cluster has no such node: {error.message}", "kubectl get nodes lists them") from error
    states = [decode_sleeper(answer).state for answer in answers]
    said = "maintenance ended" if text is None else f"in maintenance, {text}"
    found = [{"name": name, "state": state, "maintenance": text} for name, state in zip(names, states, strict=True)]
    show(options, {"nodes": found}, lambda _: [line(f"{each['name']} ({each['state']}): {said}") for each in found])
    return ExitCode.OK


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A user without a name, as in a container.
        return "unknown user"


def _reason(text: str) -> str:
    shown = printable(text.strip(), _LONGEST_REASON)
    if not shown:
        raise argparse.ArgumentTypeError("say why, in a few words")
    return shown
