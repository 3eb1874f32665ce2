"""The command line of a service: `--help`, `--version`, and a start with the environment as its settings.

Guarantees exit code 0 for a normal exit, 1 for a failure, 2 for wrong usage; in the last case standard error has every
error and how to correct it.
"""

import asyncio
import os
import shutil
import sys
import textwrap
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NoReturn, TypeVar

import structlog

from joulie_api.checked_texts import redacted_values
from joulie_api.logging import configure_logging
from joulie_api.receive_memory import keep_receive_memory
from joulie_api.settings import ProcessSettings, SettingRow, SettingsError, describe, read_settings

S = TypeVar("S", bound=ProcessSettings)

_EXIT_FAILURE = 1
_EXIT_USAGE = 2
#: After the event loop has ended only library threads can still block the exit, such as one in a hung driver call.
_THREADS_TIMEOUT_S = 3.0

_log = structlog.get_logger()


class BackgroundTaskError(Exception):
    """A background task failed or returned unexpectedly; the cause is chained and has been logged."""


def main(
    service: str,
    settings_model: type[S],
    run: Callable[[S], Awaitable[None]],
    *,
    version: str,
    summary: str = "",
    argv: Sequence[str] | None = None,
    env: Mapping[str, str] | None = None,
    flags: bool = False,
) -> NoReturn:
    """Run a service and exit.

    Args:
        service: name of the command.
        settings_model: model of its settings.
        run: runs the service until it ends.
        version: version of the service.
        summary: one sentence for `--help`.
        argv: arguments; None is those of the process.
        env: environment; None is that of the process.
        flags: whether each variable, such as CONFIG_FILE, may also be given as `--config-file VALUE`, which takes
            precedence.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    environment = os.environ if env is None else env
    if flags and not {"-h", "--help", "--version"}.intersection(arguments):
        try:
            environment = {**environment, **_read_flags(settings_model, arguments)}
        except _UsageError as error:
            sys.stderr.write(f"{service}: {error}; see `{service} --help`\n")
            sys.exit(_EXIT_USAGE)
        arguments = []
    match arguments:
        case []:
            pass
        case ["-h" | "--help"]:
            sys.stdout.write(help_text(service, settings_model, summary, flags=flags))
            sys.exit(0)
        case ["--version"]:
            sys.stdout.write(f"{service} {version}\n")
            sys.exit(0)
        case _:
            sys.stderr.write(
                f"{service} takes no arguments but --help and --version; settings come from the environment\n"
            )
            sys.exit(_EXIT_USAGE)
    try:
        settings = read_settings(settings_model, environment)
    except SettingsError as error:
        sys.stderr.write(f"{service} cannot start:\n" + textwrap.indent(str(error), "  ") + "\n")
        sys.stderr.write(f"See `{service} --help` for all variables.\n")
        sys.exit(_EXIT_USAGE)
    sys.exit(_run(service, settings, run, version))


class _UsageError(Exception):
    """The command line cannot be used."""


def _read_flags(settings_model: type[ProcessSettings], arguments: Sequence[str]) -> Mapping[str, str]:
    """Return the variables that `--name VALUE` and `--name=VALUE` set."""
    variables = {_flag(row): row.name for row in describe(settings_model)}
    values: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name not in variables:
            raise _UsageError(f"unknown argument {argument}")
        text = value if equals else next(rest, None)
        if text is None:
            raise _UsageError(f"{name} needs a value")
        values[variables[name]] = text
    return values


def _flag(row: SettingRow) -> str:
    return "--" + row.name.lower().replace("_", "-")


def help_text(service: str, settings_model: type[ProcessSettings], summary: str = "", *, flags: bool = False) -> str:
    """Return the text of `--help`: every environment variable with its unit, default and meaning."""
    width = max(60, min(shutil.get_terminal_size().columns, 120))
    lines = [f"usage: {service} [--help] [--version]" + " [--SETTING VALUE ...]" * flags, ""]
    if summary:
        lines += [*textwrap.wrap(summary, width), ""]
    source = "options or environment variables, options taking precedence" if flags else "environment variables"
    lines += [f"Settings are {source}; an empty one counts as unset.", ""]
    for row in describe(settings_model):
        heading = f"{_flag(row)}, {_heading(row)}" if flags else _heading(row)
        lines += [heading, *textwrap.wrap(row.doc, width, initial_indent="    ", subsequent_indent="    "), ""]
    return "\n".join(lines)


def _heading(row: SettingRow) -> str:
    default = "required" if row.required else f"default {row.default}" if row.default else "unset by default"
    return f"{row.name}  <{row.unit}>  {default}"


def _run(service: str, settings: S, run: Callable[[S], Awaitable[None]], version: str) -> int:
    configure_logging(service, settings.log_level, settings.log_format)
    changed = redacted_values(settings.model_dump(mode="json", exclude_defaults=True))
    _log.info("starting", version=version, pid=os.getpid(), settings=changed)
    keep_receive_memory()
    guard = threading.Timer(_THREADS_TIMEOUT_S, _abandon_threads)
    guard.daemon = True
    code = 0
    try:
        asyncio.run(_guarded(run, settings, guard))
    except BaseExceptionGroup as errors:
        # A failed background task has been logged where its name was known.
        _, others = errors.split(BackgroundTaskError)
        if others is not None:
            _log.error("service failed", exc_info=others)
        code = _EXIT_FAILURE
    except KeyboardInterrupt:
        _log.warning("interrupted")
        code = _EXIT_FAILURE
    except Exception:  # noqa: BLE001 - the outermost frame: it turns any failure into a log line and an exit code
        _log.exception("service failed")
        code = _EXIT_FAILURE
    if not _busy_threads():
        guard.cancel()
    return code


async def _guarded(run: Callable[[S], Awaitable[None]], settings: S, guard: threading.Timer) -> None:
    try:
        await run(settings)
    finally:
        # From here on only worker threads can delay the exit, which joins them.
        guard.start()


def _busy_threads() -> list[str]:
    return [
        thread.name for thread in threading.enumerate() if not thread.daemon and thread is not threading.main_thread()
    ]


def _abandon_threads() -> None:
    _log.error("threads still running at exit", threads=_busy_threads())
    os._exit(_EXIT_FAILURE)
