"""Which changes of NodePowerBudgets are looked at at once."""

import json

import pytest

from joulie_api.wire import decode_kind
from joulie_core.kinds import NodePowerBudget
from joulie_operator.power_domains.budgets import NodeBudgets
from joulie_operator.power_domains.sent import SentLimits
from joulie_testing.api import make_node_power_budget


class Watched:
    """Takes the place of the watch: keeps the subscriber."""

    def subscribe(self, handler):
        self.change = handler


def stored(version, *, renewal=1, sequence=1, status=None):
    made = make_node_power_budget("n1", renewal=renewal, sequence=sequence, status=status)
    made["metadata"] |= {"resourceVersion": version, "uid": "u"}
    return decode_kind(NodePowerBudget)(json.dumps(made).encode())


ASKED = stored("1")
ANSWERED = stored("2", status={"sequence": 1, "renewal": 1})


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (None, ASKED, True),
        (ANSWERED, None, True),
        (ASKED, ANSWERED, True),
        (ANSWERED, stored("3", status={"sequence": 1, "renewal": 2}), True),
        # The operator's own writes are no news.
        (ANSWERED, stored("3", sequence=2, renewal=2, status={"sequence": 1, "renewal": 1}), False),
    ],
    ids=["created", "deleted", "answered", "renewal repeated", "asked anew"],
)
def test_reports_and_deletions_are_looked_at_at_once(old, new, wakes):
    watched, sent, woken = Watched(), SentLimits(), []
    budgets = NodeBudgets(watched, sent, None, term=lambda above: 1, enforces=True, clock=lambda: 0.0)
    budgets.wake = lambda: woken.append(True)
    sent.sending("n1", None if old is None else old.metadata.resource_version, ASKED.model.spec, 0.0)
    watched.change("n1", old, new)
    assert woken == [True] * wakes
    # What was sent over the version before is not to come any more.
    assert not sent.seen("n1", new, 0.0).unanswered
