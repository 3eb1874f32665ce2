"""The interrupts of a machine, and which CPUs may handle them: `/sys/kernel/irq` and `/proc/irq`.

An interrupt is the line of an interrupt controller (chip and hardware number) that a number stands for at present;
numbers are given anew when devices come and go. Two kinds cannot be moved, and answer a write with EIO: those that the
kernel distributes itself (managed interrupts, as of NVMe), and those of a chip without affinity.
Source: Linux, Documentation/core-api/irq/irq-affinity.rst, Documentation/ABI/testing/sysfs-kernel-irq.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from joulie_actuator.hardware.knob import HardwareFailure, KnobKind, KnobLimits
from joulie_actuator.hardware.sysfs import SysfsTree
from joulie_actuator.reasons import Reason
from joulie_core.containers.idset import HIGHEST_ID, Cpus, InvalidIdListError

KEYS: Final = "interrupts/"
DEFAULT_KEY: Final = "interrupts/default"
#: Interrupts of one machine that are looked at; the largest have some thousands.
MOST_INTERRUPTS: Final = 8192
_ROOT: Final = "kernel/irq"
_NUMBER: Final = re.compile(r"\d{1,9}")
_HEX_GROUPS: Final = re.compile(r"[0-9a-fA-F]{1,8}(,[0-9a-fA-F]{8})*")
_GROUP_BITS: Final = 32
_LIMITS: Final = KnobLimits(1, (1 << HIGHEST_ID + 1) - 1)
_NO_TABLE: Final = HardwareFailure(Reason.NO_INTERFACE, "/sys/kernel/irq lists no interrupt")


@dataclass(frozen=True, slots=True)
class Interrupt:
    """One interrupt that a device uses, or has used."""

    number: int
    chip: str
    hardware_number: str
    devices: tuple[str, ...]

    @property
    def key(self) -> str:
        """Name of it in the journal, whatever else gets its number later."""
        return f"{KEYS}{self.number}/{self.chip}/{self.hardware_number}"

    @property
    def names(self) -> tuple[str, ...]:
        """Texts that a pattern may match."""
        return (*self.devices, self.chip)


class InterruptTable:
    """The interrupts of this machine at one time.

    Args:
        tree: `/sys`.
    """

    def __init__(self, tree: SysfsTree) -> None:
        numbers = tree.names(_ROOT, _NUMBER)
        self.failure = None if numbers else _NO_TABLE
        """Why nothing is known; None where the list is complete."""
        self.left_out = max(0, len(numbers) - MOST_INTERRUPTS)
        """Interrupts beyond `MOST_INTERRUPTS`."""
        self._numbers = frozenset(int(name) for name in numbers)
        found = (_interrupt(tree, int(name)) for name in numbers[:MOST_INTERRUPTS])
        self.interrupts: Mapping[str, Interrupt] = {each.key: each for each in found if each is not None}
        """By key; without those whose files could not be read."""
        self._identified = frozenset(each.number for each in self.interrupts.values())

    def is_gone(self, key: str) -> bool:
        """Return whether the interrupt of a key is certain not to exist any more."""
        if self.failure is not None or key == DEFAULT_KEY or key in self.interrupts:
            return False
        number = int(key.removeprefix(KEYS).partition("/")[0])
        return number not in self._numbers or number in self._identified


def _interrupt(tree: SysfsTree, number: int) -> Interrupt | None:
    texts = [tree.read_text(f"{_ROOT}/{number}/{name}") for name in ("chip_name", "hwirq", "actions")]
    chip, hardware_number, actions = (None if isinstance(text, HardwareFailure) else text for text in texts)
    if chip is None or hardware_number is None or actions is None:
        return None
    return Interrupt(number, chip, hardware_number, tuple(filter(None, actions.split(","))))


@dataclass(frozen=True, slots=True)
class AffinityKnob:
    """The CPUs of one interrupt, or of those that devices get later; a `Knob` whose value is a mask.

    Args:
        tree: `/proc/irq`.
    """

    tree: SysfsTree
    path: str
    key: str
    #: Whether the file has a mask in hexadecimal groups, and not a list.
    is_mask: bool = False
    unit: str = "mask of CPUs"
    limits: KnobLimits = _LIMITS
    kind: KnobKind = KnobKind.SWITCH

    def read(self) -> int | HardwareFailure:
        """Return the mask in force."""
        text = self.tree.read_text(self.path)
        if isinstance(text, HardwareFailure):
            return text
        mask = _parse_mask(text) if self.is_mask else _parse_list(text)
        return mask or HardwareFailure(Reason.MALFORMED_REPLY, f"{self.path} holds {text[:40]!r}, no set of CPUs")

    def write(self, value: int) -> int | HardwareFailure:
        """Write, read back, and return what was read."""
        text = _mask(value) if self.is_mask else str(Cpus.from_mask(value))
        return self.tree.write_text(self.path, text) or self.read()


def affinity_knob(tree: SysfsTree, interrupt: Interrupt) -> AffinityKnob:
    """Return the knob of an interrupt."""
    return AffinityKnob(tree, f"{interrupt.number}/smp_affinity_list", interrupt.key)


def default_affinity_knob(tree: SysfsTree) -> AffinityKnob:
    """Return the knob of interrupts that devices get later."""
    return AffinityKnob(tree, "default_smp_affinity", DEFAULT_KEY, is_mask=True)


def _parse_list(text: str) -> int:
    try:
        return Cpus.parse(text).mask
    except InvalidIdListError:
        return 0


def _parse_mask(text: str) -> int:
    if not _HEX_GROUPS.fullmatch(text):
        return 0
    mask = int(text.replace(",", ""), 16)
    return mask if mask in _LIMITS else 0


def _mask(value: int) -> str:
    groups = []
    while value:
        groups.append(f"{value & (1 << _GROUP_BITS) - 1:08x}")
        value >>= _GROUP_BITS
    return ",".join(reversed(groups))
