"""`kubectl-joulie`: the command line of Joulie, which kubectl finds as a plugin."""

import asyncio
import logging
import os
import sys
from argparse import Namespace
from collections.abc import Sequence

import structlog

from joulie_cli import VERSION
from joulie_cli.arguments import VERBS, make_parser
from joulie_cli.output import CliError, ExitCode, print_error


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a verb, and exit with its code."""
    sys.exit(_main(arguments))


def _main(arguments: Sequence[str] | None) -> ExitCode:
    words = sys.argv[1:] if arguments is None else arguments
    # Only the verb that runs is imported, so that the others cost it nothing.
    parser = make_parser([each for each in words[:1] if each in VERBS] or VERBS)
    options = parser.parse_args(words)
    if options.version:
        print(VERSION)
        return ExitCode.OK
    if options.verb is None:
        parser.print_help()
        return ExitCode.USAGE
    _quiet_log()
    try:
        return asyncio.run(perform(options))
    except KeyboardInterrupt:
        return ExitCode.OK
    except BrokenPipeError:
        # The reader, such as `head`, has what it wants; Python would complain at exit when it flushes the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK


async def perform(options: Namespace) -> ExitCode:
    """Run the verb of parsed options; an error of its user's is printed."""
    try:
        code: ExitCode = await options.run(options)
    except CliError as error:
        way_out = f"\n  {error.way_out}" if error.way_out else ""
        print_error(f"error: {error.problem}{way_out}")
        return error.code
    return code


def _quiet_log() -> None:
    """Keep the log of the libraries off the output: each failure is shown where it matters."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


if __name__ == "__main__":
    main()
