"""Liveness and readiness as named checks with reasons.

A check is a function without arguments that returns None when it passes and a reason otherwise. Readiness is whether
this process should receive work; liveness whether it works without a restart: losing the API server affects readiness
only. A check that raises has failed, with the error as its reason.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog
from aiohttp import web

from joulie_api.failure_log import FailureLog

Check = Callable[[], str | None]

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Report:
    """The results of a group of checks; None is a passed check."""

    group: str
    reasons: Mapping[str, str | None]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(reason is None for reason in self.reasons.values())

    @property
    def text(self) -> str:
        """One line per check, then the overall result, in the form of the Kubernetes API server's endpoints."""
        lines = [
            f"[+]{name} ok" if reason is None else f"[-]{name} failed: {reason}"
            for name, reason in self.reasons.items()
        ]
        return "\n".join([*lines, f"{self.group} check {'passed' if self.ok else 'failed'}", ""])


class Health:
    """The checks of one process and the endpoints that serve them."""

    def __init__(self) -> None:
        self._ready: dict[str, Check] = {}
        self._live: dict[str, Check] = {}
        # Every process starts as not ready, which does not deserve a warning.
        self._failures = FailureLog(_log, failed="not ready", recovered="ready", level=logging.INFO)

    def add_ready(self, name: str, check: Check) -> None:
        """Add a readiness check.

        Raises:
            ValueError: the name is taken.
        """
        _add(self._ready, name, check)

    def add_live(self, name: str, check: Check) -> None:
        """Add a liveness check.

        Raises:
            ValueError: the name is taken.
        """
        _add(self._live, name, check)

    def readiness(self) -> Report:
        """Run every readiness check; log failures once, and when all checks pass again."""
        report = Report("readyz", _run_checks(self._ready))
        failed = {name: reason for name, reason in report.reasons.items() if reason is not None}
        if failed:
            problem = "; ".join(f"{name}: {reason}" for name, reason in failed.items())
            self._failures.failed(problem, cause=", ".join(failed))
        else:
            self._failures.recovered()
        return report

    def liveness(self) -> Report:
        """Run every liveness check."""
        return Report("healthz", _run_checks(self._live))

    def routes(self) -> list[web.RouteDef]:
        """Return routes for `/healthz`, `/readyz` and, below each, its single checks."""
        return [
            web.get("/healthz", self._serve_liveness),
            web.get("/healthz/{check}", self._serve_liveness),
            web.get("/readyz", self._serve_readiness),
            web.get("/readyz/{check}", self._serve_readiness),
        ]

    async def _serve_liveness(self, request: web.Request) -> web.Response:
        return _answer(request, self.liveness())

    async def _serve_readiness(self, request: web.Request) -> web.Response:
        return _answer(request, self.readiness())


def _add(checks: dict[str, Check], name: str, check: Check) -> None:
    if name in checks:
        raise ValueError(f"a health check named {name} exists already")
    checks[name] = check


def _run_checks(checks: Mapping[str, Check]) -> dict[str, str | None]:
    return {name: _run_check(check) for name, check in checks.items()}


def _run_check(check: Check) -> str | None:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - any error of a check is reported as its reason
        return f"{type(error).__name__}: {error}"


def _answer(request: web.Request, report: Report) -> web.Response:
    name = request.match_info.get("check")
    if name is not None:
        if name not in report.reasons:
            return web.Response(status=404, text=f"no check {name}; checks: {', '.join(report.reasons) or 'none'}\n")
        report = Report(f"{report.group}/{name}", {name: report.reasons[name]})
    return web.Response(status=200 if report.ok else 503, text=report.text)
