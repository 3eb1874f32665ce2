"""The series of the start hook."""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from joulie_api.metrics import counter, gauge
from joulie_containers.start_hook.controller import AskOutcome
from joulie_containers.start_hook.plugin import StartHook


def start_hook_families(hook: StartHook, *, registered: bool) -> Iterator[Metric]:
    """Yield the series of a start hook, and of whether the runtime asks it."""
    yield gauge(
        "joulie_start_hook_registered",
        "1 while the container runtime asks the start hook before it creates containers, else 0.",
        (),
        [((), float(registered))],
    )
    yield counter(
        "joulie_start_hook_containers_total",
        "Containers by the end of the question about them: answered, late (started after the deadline) or "
        "no-controller (started at once).",
        ("outcome",),
        [((outcome,), hook.outcomes[outcome]) for outcome in AskOutcome],
    )
    yield counter(
        "joulie_start_hook_wait_seconds_total",
        "Time that containers have waited for the answer, over all of them.",
        (),
        [((), hook.waited_s)],
    )
    yield gauge(
        "joulie_start_hook_longest_wait_seconds",
        "The longest of these times since the start hook has started.",
        (),
        [((), hook.longest_wait_s)],
    )
