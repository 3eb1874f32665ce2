"""The check of `doctor` about nodes that sleep: a pure function from what was read to findings with a way out."""

from collections.abc import Iterator, Sequence
from typing import Final

from joulie_cli.check_outcome import CheckOutcome, found, ok
from joulie_cli.node_rows import NodeRow
from joulie_cli.quantities import counted
from joulie_cli.sleepers import AWAKE, QUARANTINED

_CHECK: Final = "sleep"


def check_sleep(rows: Sequence[NodeRow]) -> Iterator[CheckOutcome]:
    """Return nodes in quarantine, or how many are not awake; nothing where all are."""
    quarantined = tuple(row.name for row in rows if row.sleep_state == QUARANTINED)
    others = sum(row.sleep_state not in {AWAKE, QUARANTINED, None} for row in rows)
    if quarantined:
        yield found(
            _CHECK,
            "nodes are in quarantine: they were powered on, and did not become ready",
            f"see console and BMC, power on, then: kubectl joulie wake {quarantined[0]} --clear-quarantine",
            quarantined,
        )
    elif others:
        yield ok(_CHECK, f"{counted(others, 'node')} {'is' if others == 1 else 'are'} not awake, none in quarantine")
