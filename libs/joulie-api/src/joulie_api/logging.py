"""Log lines of a process: one structured event per line on standard output.

Guarantees: every line has the keys `timestamp` (UTC, RFC 3339), `level`, `event` and `service` and the context
variables bound by `structlog.contextvars`; what libraries log through the standard `logging` module (warnings and
above) has the same form. Tracebacks have lines of code and messages, and no values of variables: these may be
credentials.
"""

import logging
import sys
from typing import Any

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from joulie_api.settings import LogFormat, LogLevel


def configure_logging(service: str, level: LogLevel = LogLevel.INFO, fmt: LogFormat = LogFormat.JSON) -> None:
    """Set up logging for the whole process; the last call wins.

    Args:
        service: value of the key `service`, such as `joulie-operator`.
        level: the least severe event written.
        fmt: JSON for collectors, console for people.
    """

    def name_service(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        return {**event, "service": service}

    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        name_service,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    ending: list[Processor] = (
        # Where rich is installed, structlog's default is its traceback, which has the values of local variables.
        [structlog.dev.ConsoleRenderer(colors=sys.stdout.isatty(), exception_formatter=structlog.dev.plain_traceback)]
        if fmt is LogFormat.CONSOLE
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=_dump)]
    )
    threshold = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*shared, *ending],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stdout),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ending],
        )
    )
    # Libraries log routine operation at info; asyncio's warnings must not be lost.
    logging.basicConfig(handlers=[handler], level=max(threshold, logging.WARNING), force=True)
    logging.captureWarnings(capture=True)


def _dump(event: Any, **_options: Any) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()
