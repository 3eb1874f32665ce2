"""`kubectl joulie completion`: scripts for shells, and the words that they offer.

`kubectl_complete-joulie` is what kubectl runs with the words after `kubectl joulie`, the last of them unfinished; it
prints one candidate a line and then a directive. Candidates that have to be read from the cluster are left out where it
does not answer in time: a shell waits for them. Source: kubectl, "Extend kubectl with plugins", completion.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

from joulie_api.errors import KubeError
from joulie_api.resources import PODS
from joulie_cli.arguments import MANAGED, VERBS, add_verb, make_parsers
from joulie_cli.cluster import connect
from joulie_cli.layout import harmless, line
from joulie_cli.output import CliError, ExitCode, print_lines
from joulie_cli.views.nodes import decode_marks

#: No file names: cobra's ShellCompDirectiveNoFileComp.
_DIRECTIVE: Final = ":4"
_TIMEOUT_S: Final = 3.0
_SCRIPTS: Final = {
    "bash": """\
_kubectl_joulie() {
  local IFS=$'\\n'
  COMPREPLY=($(kubectl_complete-joulie "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | grep -v '^:'))
}
complete -F _kubectl_joulie kubectl-joulie
""",
    "zsh": """\
#compdef kubectl-joulie
_kubectl_joulie() {
  local -a found
  found=(${(f)"$(kubectl_complete-joulie "${(@)words[2,CURRENT]}" 2>/dev/null | grep -v '^:')"})
  compadd -a found
}
compdef _kubectl_joulie kubectl-joulie
""",
    "fish": """\
function __kubectl_joulie
  set -l words (commandline -opc) (commandline -ct)
  kubectl_complete-joulie $words[2..-1] 2>/dev/null | string match -v ':*'
end
complete -c kubectl-joulie -f -a '(__kubectl_joulie)'
""",
}
#: What stands in the help for arguments that are names of nodes and of pods.
_NODE, _POD = "NODE", "POD"


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "completion",
        run,
        summary="script for the completion of a shell",
        description="Completes kubectl-joulie. kubectl itself completes `kubectl joulie` where "
        "kubectl_complete-joulie, which is installed beside this program, is on PATH.",
        example="source <(kubectl joulie completion bash)",
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")


async def run(options: argparse.Namespace) -> ExitCode:
    """Print the script."""
    print_lines(line(each) for each in script(options.shell).splitlines())
    return ExitCode.OK


def script(shell: str) -> str:
    """Return the script of a shell."""
    return _SCRIPTS[shell]


def main() -> None:
    """Print the candidates for the last of the words given as arguments."""
    for candidate in complete(sys.argv[1:] or [""]):
        print(harmless(candidate))  # noqa: T201 - the output of the command
    print(_DIRECTIVE)  # noqa: T201 - as above


def complete(words: Sequence[str]) -> list[str]:
    """Return the candidates for the last word, in alphabetical order."""
    *before, unfinished = words
    verb = next((word for word in before if word in VERBS), None)
    # Only the verb that is completed is imported: a shell waits.
    parser, verbs = make_parsers([] if verb is None else [verb])
    if verb is None:
        found: Iterable[str] = [*VERBS, *(name for action in _actions(parser) for name in action.option_strings)]
    else:
        found = _of_verb(verbs[verb], before[before.index(verb) + 1 :], unfinished)
    return sorted({each for each in found if each.startswith(unfinished)})


def _of_verb(parser: argparse.ArgumentParser, given: Sequence[str], unfinished: str) -> Iterable[str]:
    actions = {name: action for action in _actions(parser) for name in action.option_strings}
    option = actions.get(given[-1]) if given else None
    if option is not None and option.nargs != 0:
        if option.choices is not None:
            return list(option.choices)
        return _names(_NODE, given, actions) if option.dest == "node" else []
    if unfinished.startswith("-"):
        return actions
    positional = next((each for each in _actions(parser) if not each.option_strings), None)
    if positional is None:
        return []
    if positional.choices is None:
        return _names(str(positional.metavar), given, actions)
    # `explain` takes the kind, and then a name of it.
    chosen = next((word for word in given if word in positional.choices), None)
    return list(positional.choices) if chosen is None else _names(chosen.upper(), given, actions)


def _names(kind: str, given: Sequence[str], actions: dict[str, argparse.Action]) -> list[str]:
    """Return names of objects of the cluster that the options given so far choose; none of other kinds."""
    if kind not in {_NODE, _POD}:
        return []
    values = {
        actions[word].dest: following
        for word, following in pairwise(given)
        if word in actions and actions[word].nargs != 0
    }
    try:
        return asyncio.run(asyncio.wait_for(_read(kind, values), _TIMEOUT_S))
    except (CliError, KubeError, TimeoutError):
        return []


async def _read(kind: str, values: dict[str, str]) -> list[str]:
    options = argparse.Namespace(kubeconfig=values.get("kubeconfig"), context=values.get("context"))
    async with connect(options) as cluster:
        if kind == _NODE:
            return [each.name for each in await cluster.marks(values.get("selector", MANAGED))]
        namespace = values.get("namespace", cluster.client.namespace)
        return [each.name for each in await cluster.read(PODS, decode_marks, namespace, metadata_only=True)]


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return parser._actions  # noqa: SLF001 - argparse has no public list of them
