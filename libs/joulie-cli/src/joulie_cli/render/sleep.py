"""Fields and sentences about nodes that are not awake."""

from collections.abc import Iterator
from typing import Final

from joulie_cli.layout import Cell
from joulie_cli.quantities import age
from joulie_cli.render.nodes import sleep_style
from joulie_cli.sleepers import AWAKE, GOING_STATES, QUARANTINED, WAKING, SleepNote

#: What wakes a node that is asleep, or calls back one that goes to sleep.
WOKEN_BY: Final = (
    "pods that kube-scheduler finds no node for and that have room here; the minimum, the spare nodes and the "
    "schedules of its policy; roll-outs of DaemonSets"
)


def sleep_fields(note: SleepNote, now_s: float) -> Iterator[tuple[str, str | Cell]]:
    """Return what is said of a node that is not awake; nothing of one that is."""
    if note.state == AWAKE:
        return
    since = "" if note.since_s is None else f" for {age(now_s - note.since_s)}"
    yield "Sleep", Cell(f"{note.state}{since}{f': {note.reason}' if note.reason else ''}", sleep_style(note.state))
    if note.state == WAKING:
        yield "Takes pods", "once its BMC says that it is on, and its kubelet is ready"
    elif note.state == QUARANTINED:
        yield "Way out", f"see console and BMC, power it on, then: kubectl joulie wake {note.node} --clear-quarantine"
    else:
        kept = "Kept awake by" if note.state in GOING_STATES else "Woken by"
        yield kept, f"{WOKEN_BY}; kubectl joulie wake {note.node}"
