"""CPU classes in the configuration of container policies: frequencies, preferences and idle states of CPUs."""

import re
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema

from joulie_core.control.cpu_frequency import ClassFrequency, FrequencyName
from joulie_core.control.throttle_plan import ThrottleOrder
from joulie_core.kinds.base import NO_EFFECT, CheckedModel, Invariant, Model
from joulie_core.labels import PREFIX

#: Schema of a field that takes a number or a text.
INT_OR_STRING: Final[dict[str, Any]] = {"x-kubernetes-int-or-string": True}

_FREQUENCY: Final = re.compile(r"(?P<number>\d{1,9}(\.\d{1,9})?)\s*(?P<unit>[kMG]Hz)?")
_KHZ: Final = {None: 1, "kHz": 1, "MHz": 1_000, "GHz": 1_000_000}
_HIGHEST_KHZ: Final = 100_000_000
#: With its suffix, the name of a resource has at most 63 characters.
_RESOURCE_NAME: Final = re.compile("^[A-Za-z0-9]([-A-Za-z0-9_.]{0,55}[A-Za-z0-9])?$")
_EPP_WORDS: Final = ("default", "performance", "balance_performance", "balance_power", "power")
_HIGHEST_EPP: Final = 255


def parse_frequency(value: object) -> ClassFrequency | None:
    """Return a frequency in kHz or its name; 0 is "not set", as None is.

    Raises:
        ValueError: It is neither a whole number of kHz, nor a text such as `2.4GHz`, `min`, `base` or `turbo`.
    """
    if value is None or value in FrequencyName.__members__.values():
        return None if value is None else FrequencyName(str(value))
    khz: Decimal | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        khz = Decimal(value)
    elif isinstance(value, str) and value.isascii() and (match := _FREQUENCY.fullmatch(value)):
        khz = Decimal(match["number"]) * _KHZ[match["unit"]]
    if khz is None or khz != int(khz) or not 0 <= khz <= _HIGHEST_KHZ:
        raise ValueError("write a whole number of kHz, a text such as 2.4GHz, or min, base or turbo")
    return int(khz) or None


def parse_epp(value: object) -> str | None:
    """Return an energy performance preference as cpufreq takes it.

    Raises:
        ValueError: It is neither one of the kernel's words nor a number from 0 to 255.
    """
    if value is None:
        return None
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if text not in _EPP_WORDS and not (text.isascii() and text.isdigit() and int(text) <= _HIGHEST_EPP):
        raise ValueError(f"write one of {', '.join(_EPP_WORDS)}, or a number from 0 (performance) to 255 (power)")
    return text


Frequency = Annotated[
    ClassFrequency | None,
    PlainValidator(parse_frequency),
    PlainSerializer(lambda value: value if value is None else getattr(value, "value", value)),
    WithJsonSchema(INT_OR_STRING),
]
EnergyPreference = Annotated[str | None, PlainValidator(parse_epp), WithJsonSchema(INT_OR_STRING)]
Khz = Annotated[int, Field(ge=0, le=_HIGHEST_KHZ)]
ClassName = Annotated[str, Field(min_length=1, max_length=128)]
GovernorName = Literal["performance", "powersave", "schedutil", "ondemand", "conservative"]
IdleStates = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=32)], ...], Field(max_length=16)]


class CpuClassControlsSpec(Model):
    """Settings for the CPUs of a class; an absent field leaves what the host has."""

    min_freq: Frequency = None
    """Lower limit of the frequency: a number of kHz, a text such as `2.4GHz`, or `min`, `base` or `turbo`."""
    max_freq: Frequency = None
    """Upper limit of the frequency, written like `minFreq`."""
    energy_performance_preference: EnergyPreference = None
    """A word of the kernel, such as `balance_power`, or a number from 0 (performance) to 255 (power)."""
    freq_governor: GovernorName | None = None
    """Governor of cpufreq."""
    uncore_min_freq: Frequency = None
    """Lower limit of the uncore's frequency."""
    uncore_max_freq: Frequency = None
    """Upper limit of the uncore's frequency."""
    disabled_cstates: IdleStates = ()
    """Idle states that are disabled, by the kernel's name, such as `C6`."""


class CpuClassSpec(CpuClassControlsSpec, CheckedModel):
    """A CPU class."""

    invariants = (
        Invariant(
            "!has(self.pctPriority) && !has(self.sstClosID)",
            "pctPriority and sstClosID need Intel Speed Select, which is not supported; remove them",
            lambda spec: spec.pct_priority is None and spec.sst_clos_id is None,
        ),
        Invariant(
            "!has(self.publishExtendedResource) || !self.publishExtendedResource || "
            f"self.name.matches('{_RESOURCE_NAME.pattern}')",
            "with publishExtendedResource the name has 1 to 57 letters, digits, '-', '_' or '.', and begins and ends "
            "with a letter or digit",
            lambda spec: not spec.publish_extended_resource or _RESOURCE_NAME.fullmatch(spec.name) is not None,
        ),
    )

    name: ClassName
    """Name that balloon types and pools refer to."""
    turbo_priority: Annotated[int, Field(ge=0, le=1000)] = 0
    """In a package, only the classes of the highest priority above 0 exceed the base frequency by `turbo`."""
    throttle_order: ThrottleOrder | None = None
    """When a power cap throttles these CPUs: `eco` first, then `standard`, then `performance`. Absent: the class of
    that name, else `standard`."""
    publish_extended_resource: bool = False
    """Publish as the node's extended resource `cpuclass.joulie.io/NAME-milli` how many CPUs of the class containers can
    have there at most, in thousandths."""
    pct_priority: Annotated[str, Field(max_length=16)] | None = None
    """Accepted for compatibility and refused when set."""
    pct_min_freq: Annotated[str | None, Field(max_length=16), NO_EFFECT] = None
    """Accepted for compatibility; has no effect, since it belongs to `pctPriority`."""
    pct_max_freq: Annotated[str | None, Field(max_length=16), NO_EFFECT] = None
    """Accepted for compatibility; has no effect, since it belongs to `pctPriority`."""
    sst_clos_id: Annotated[int, Field(ge=0, le=3)] | None = Field(default=None, alias="sstClosID")
    """Accepted for compatibility and refused when set."""

    @property
    def throttled(self) -> ThrottleOrder:
        """When a throttle takes the CPUs of the class."""
        if self.throttle_order is not None:
            return self.throttle_order
        return ThrottleOrder(self.name) if self.name in ThrottleOrder.__members__.values() else ThrottleOrder.STANDARD


#: Settings of Joulie's own classes, where a configuration has none for the name.
BUILTIN_CPU_CLASSES: Final[Mapping[str, CpuClassSpec]] = MappingProxyType(
    {
        spec.name: spec
        for spec in (
            CpuClassSpec(name="performance", energy_performance_preference="performance"),
            CpuClassSpec(name="standard", energy_performance_preference="balance_performance"),
            CpuClassSpec(name="eco", max_freq=FrequencyName.BASE, energy_performance_preference="power"),
        )
    }
)


def cpu_class_resource(name: str) -> str:
    """Return the extended resource of a CPU class, whose amounts are thousandths of a CPU."""
    return f"cpuclass.{PREFIX}{name}-milli"


def cpu_classes(
    classes: tuple[CpuClassSpec, ...], legacy: Mapping[str, CpuClassControlsSpec]
) -> Mapping[str, CpuClassSpec]:
    """Return all classes by name: those configured, then those of `control.cpu.classes`, then the built-in ones."""
    older = {name: CpuClassSpec(name=name, **controls.model_dump()) for name, controls in legacy.items()}
    return {**BUILTIN_CPU_CLASSES, **older, **{spec.name: spec for spec in classes}}
