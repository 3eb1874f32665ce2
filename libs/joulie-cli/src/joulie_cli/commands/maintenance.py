"""`kubectl joulie maintenance`: keeps Joulie away from servers that people work on.

It is the annotation `joulie.io/maintenance` of the Node: who, and why. The operator acts on it.
"""

import getpass
from argparse import Namespace
from typing import Final

from joulie_api.errors import Forbidden, NotFound
from joulie_api.resources import NODES
from joulie_cli.cluster import connect
from joulie_cli.layout import line
from joulie_cli.outcome import CliError, ExitCode
from joulie_cli.output import as_data, print_data, print_lines
from joulie_cli.sleepers import decode_sleeper
from joulie_core.labels import MAINTENANCE

_FIELD_MANAGER: Final = "kubectl-joulie"
_FORBIDDEN_WAY_OUT: Final = (
    "maintenance needs get and patch on nodes; the ClusterRole joulie-viewer only reads.\n"
    "  docs/kubectl-joulie.md, Permissions, has the rule for an administrator to grant"
)


async def run(options: Namespace) -> ExitCode:
    """Begin or end the maintenance of the nodes, of which all must exist, and print them."""
    text = None if options.end else f"{_user()}: {options.reason}"
    names = list(dict.fromkeys(options.names))
    body = {"metadata": {"annotations": {MAINTENANCE: text}}}
    async with connect(options) as cluster:
        try:
            for name in names:
                await cluster.client.get(NODES, name)
            states = [
                decode_sleeper(
                    await cluster.client.merge_patch(NODES, name, body, field_manager="kubectl-joulie")
                ).state
                for name in names
            ]
        except NotFound as error:
            raise CliError(f"the cluster has no such node: {error.message}", "kubectl get nodes lists them") from error
        except Forbidden as error:
            raise CliError(f"forbidden: {error.message}", _FORBIDDEN_WAY_OUT) from error
    found = [{"name": name, "state": state, "maintenance": text} for name, state in zip(names, states, strict=True)]
    if as_data(options):
        print_data({"nodes": found}, options)
    else:
        said = "maintenance ended" if text is None else f"in maintenance, {text}"
        print_lines([line(f"{name} ({state}): {said}") for name, state in zip(names, states, strict=True)])
    return ExitCode.OK


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A user without a name, as in a container.
        return "unknown user"
