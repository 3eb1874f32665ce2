"""Writes a receipt of the energy of each pod of this node that has ended: an Event about it.

Guarantees that the API server takes at most one for each pod, whatever is repeated: the Event's name has the pod's UID.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from joulie_api.app import App
from joulie_api.client import KubeClient
from joulie_api.pod_events import PodEvent, PodEvents, name_of_once
from joulie_core.attribution.energy import StatedEnergy
from joulie_core.attribution.receipts import PodReceipt, ReceiptBook
from joulie_core.attribution.sums import EnergySum
from joulie_core.attribution.totals import MeteredDevice
from joulie_core.holders.records import NodePod
from joulie_core.timestamps import rfc3339

#: Seconds between two Events.
INTERVAL_S: Final = 1.0
REASON: Final = "EnergyReceipt"
_IN_NAME: Final = "energy"


@dataclass(frozen=True, slots=True)
class ReceiptSources:
    """Sources of what receipts depend on, and what takes them."""

    #: Keys of pods, `namespace/name`, that are there and cannot be read.
    unreadable: Callable[[], Collection[str]]
    wall_time: Callable[[], float]
    #: Takes an Event.
    record: Callable[[PodEvent], None]


class Receipts:
    """The receipts of one node."""

    def __init__(self, sources: ReceiptSources) -> None:
        self._sources = sources
        self._book = ReceiptBook()

    def looked(self, pods: Mapping[str, NodePod] | None) -> None:
        """Take over which pods there are, by `namespace/name`; None while they are not known."""
        self._book.looked(pods, self._sources.unreadable(), self._sources.wall_time())

    def add(self, device: MeteredDevice, stated: StatedEnergy, seconds: float) -> None:
        """Add the energy of one interval of `seconds`."""
        self._book.add(device, stated, seconds)

    def write(self) -> None:
        """Hand over the receipts that are due."""
        for receipt in self._book.due(self._sources.wall_time()):
            self._sources.record(
                PodEvent(
                    namespace=receipt.namespace,
                    pod=receipt.pod,
                    pod_uid=receipt.uid,
                    reason=REASON,
                    message=message_of(receipt),
                    is_warning=False,
                    name=name_of_once(receipt.pod, receipt.uid, _IN_NAME),
                )
            )


def write_receipts(
    app: App, client: KubeClient, component: str, node: str, unreadable: Callable[[], Collection[str]]
) -> Receipts:
    """Start to write receipts, in a queue of their own, so that they delay no warning.

    Args:
        app: runs the writer.
        client: reaches the API server.
        component: name of the process.
        node: name of the node.
        unreadable: as of `ReceiptSources`.
    """
    events = PodEvents(client, component=component, node=node, wall_time=time.time, interval_s=INTERVAL_S)
    app.spawn("energy receipts", events.run())
    return Receipts(ReceiptSources(unreadable, time.time, events.record))


def message_of(receipt: PodReceipt) -> str:
    """Return a receipt for people: joules as point and bounds, the time that they are of, and what is not in them."""
    begins_s, ended_s = receipt.begins_at_s, receipt.ended_at_s
    period = f"from {_time(begins_s)} to {_time(ended_s)}, {max(0.0, ended_s - begins_s):.0f} s"
    return " ".join((f"Energy {period}: {'; '.join(_sums(receipt))}.", *_not_counted(receipt)))


def _sums(receipt: PodReceipt) -> Iterator[str]:
    for device in MeteredDevice:
        kinds = sorted(kind for of_device, kind in receipt.energy if of_device is device)
        for kind in kinds:
            yield f"{device.upper()} {_joules(receipt.energy[device, kind])}, {kind}"
        if not kinds and (device is MeteredDevice.CPU or receipt.has_gpus):
            yield f"{device.upper()} unknown"


def _joules(energy: EnergySum) -> str:
    return f"{energy.joules:.1f} J ({energy.lower_joules:.1f} to {energy.upper_joules:.1f} J)"


def _not_counted(receipt: PodReceipt) -> Iterator[str]:
    if not receipt.from_start:
        began = "at a time that is not known" if receipt.started_at_s is None else f"at {_time(receipt.started_at_s)}"
        yield f"Since {_time(receipt.since_s)} only: the pod started {began}, and its energy before is not counted."
    if receipt.cpu_uncounted_s >= 1.0:
        yield f"CPU energy of {receipt.cpu_uncounted_s:.0f} s is not counted: it could not be split between pods."


def _time(epoch_s: float) -> str:
    return rfc3339(epoch_s, timespec="seconds")
