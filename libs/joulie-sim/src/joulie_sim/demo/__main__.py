"""`joulie-demo`: the command line of the demo."""

import asyncio
import signal
import sys
from collections.abc import Iterator
from typing import Final, NoReturn

import aiohttp
from rich.console import Console

from joulie_api.errors import KubeError
from joulie_api.logging import configure_logging
from joulie_api.settings import LogFormat, LogLevel
from joulie_devcluster.binaries import lookup
from joulie_devcluster.errors import DevClusterError
from joulie_devcluster.host.progress import Reporter, terminal_reporter
from joulie_sim.demo.day.runner import run_day
from joulie_sim.demo.errors import DemoError
from joulie_sim.demo.kind_site import KindTools
from joulie_sim.demo.options import Options, parse_options
from joulie_sim.demo.runner import Demo
from joulie_sim.demo.scenario import Scenario, make_scenario
from joulie_sim.demo.site import SiteOpener, open_devcluster
from joulie_sim.workload.openb_csv import TraceError

_EXIT_FAILED: Final = 1
_EXIT_USAGE: Final = 2
_EXIT_INTERRUPTED: Final = 130
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> NoReturn:
    """Run the demo and exit."""
    options = parse_options(sys.argv[1:])
    configure_logging("joulie-demo", LogLevel.WARNING, LogFormat.CONSOLE)
    try:
        scenario = None if options.day else make_scenario(options)
    except TraceError as error:
        print(f"joulie-demo: {error}", file=sys.stderr)
        sys.exit(_EXIT_USAGE)
    sys.exit(_run_to_end(options, scenario))


def _run_to_end(options: Options, scenario: Scenario | None) -> int:
    """Run the demo, or a day without a scenario, and return the exit code."""
    code = 0
    # Until the event loop handles the signals, each is a KeyboardInterrupt, so that a build removes its files.
    for number in _SIGNALS:
        signal.signal(number, signal.default_int_handler)
    try:
        with terminal_reporter() as reporter:
            # Outside the event loop, whose threads cannot be interrupted.
            open_site = _prepare(options, reporter)
            asyncio.run(_run(options, scenario, open_site, reporter))
    except* (asyncio.CancelledError, KeyboardInterrupt):
        code = _EXIT_INTERRUPTED
    except* (DevClusterError, DemoError, KubeError, aiohttp.ClientError) as errors:
        for error in _leaves(errors):
            print(f"joulie-demo: {error}", file=sys.stderr)
        code = _EXIT_FAILED
    return code


def _prepare(options: Options, reporter: Reporter) -> SiteOpener:
    """Build what is missing, and return what makes the site of the demo."""
    if options.kind:
        return KindTools.prepare(reporter).open
    lookup.ensure(reporter=reporter)
    return open_devcluster


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """Yield the errors of nested groups."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


async def _run(options: Options, scenario: Scenario | None, open_site: SiteOpener, reporter: Reporter) -> None:
    """Run the demo; a first signal cancels it, further ones must not interrupt the cleanup."""
    task = asyncio.current_task()
    assert task is not None
    interrupted = False

    def interrupt() -> None:
        nonlocal interrupted
        if interrupted:
            print("joulie-demo: cleanup in progress", file=sys.stderr)
            return
        interrupted = True
        task.cancel()

    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, interrupt)
    if scenario is None:
        await run_day(options, console=Console(), reporter=reporter)
    else:
        await Demo(options, scenario, open_site, console=Console(), reporter=reporter).run()


if __name__ == "__main__":
    main()
