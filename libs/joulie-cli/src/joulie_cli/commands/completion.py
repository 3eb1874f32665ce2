"""`kubectl joulie completion`: the script of a shell."""

from argparse import Namespace

from joulie_cli.completion import script
from joulie_cli.layout import line
from joulie_cli.outcome import ExitCode
from joulie_cli.output import print_lines


async def run(options: Namespace) -> ExitCode:
    """Print the script."""
    print_lines(line(each) for each in script(options.shell).splitlines())
    return ExitCode.OK
