"""Reporters of progress: what is left on the screen."""

import io

import pytest
from rich.console import Console
from rich.progress import Progress, TextColumn

from joulie_devcluster.host.progress import BarReporter, LineReporter


@pytest.mark.parametrize(
    ("end", "shown"), [(LineReporter.finish, "step: done in 0 s"), (LineReporter.abandon, "step: abandoned after 0 s")]
)
def test_lines_state_whether_a_step_was_done_or_abandoned(end, shown):
    output = io.StringIO()
    reporter = LineReporter(Console(file=output))
    reporter.begin("step")
    end(reporter)
    assert output.getvalue() == f"step ...\n{shown}\n"


def test_the_bar_of_an_abandoned_step_stops_where_it_is():
    progress = Progress(TextColumn("{task.description}"), console=Console(file=io.StringIO()))
    reporter = BarReporter(progress)
    reporter.begin("step")
    reporter.advance(3, 8, "item")
    reporter.abandon()
    (task,) = progress.tasks
    assert (task.completed, task.total, task.fields["detail"]) == (3, 8, "abandoned")
    assert task.stop_time is not None
