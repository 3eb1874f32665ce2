"""The inventory: figures for known CPU and GPU models, and the look-up of raw model strings.

Guarantees to recognise what `/proc/cpuinfo`, NVML, AMD SMI, device plugins' labels and the openb trace call a model, in
any letter case and with any separators, and to grade the match: the very model, a close relative, or a guess by
vendor. Figures are the data files' (`inventory.toml`, `power_models.toml`, `work_rates.toml`), each with its source;
what the hardware itself reports is always better.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final, Generic, TypeVar

from joulie_core.gpu_vendors import GPU_VENDORS
from joulie_core.hardware.power_curve import CapResponse, PowerCurve
from joulie_core.hardware.work_rates import WorkRate, WorkRates
from joulie_core.kinds.node_hardware import Exactness


@dataclass(frozen=True, slots=True)
class CpuSpec:
    """One CPU model; figures are per package."""

    key: str
    model: str
    vendor: str
    generation: str
    cores: int
    threads_per_core: int
    base_ghz: float
    boost_ghz: float
    #: Highest cap: the TDP.
    max_watts: float
    #: Lowest useful cap.
    min_watts: float
    #: Instructions per cycle relative to EPYC 7002.
    ipc: float
    #: The generation whose published results stand for the model.
    curve_name: str
    curve: PowerCurve
    source: str
    #: Whether it stands for every CPU of a vendor that is not listed.
    generic: bool = False
    #: Of integer work of one hardware thread, over EPYC 7763; None without a published result.
    work_per_thread: WorkRate | None = None

    @property
    def idle_watts(self) -> float:
        """Power of one package without load."""
        return self.curve.watts(0, self.max_watts)


@dataclass(frozen=True, slots=True)
class GpuSpec:
    """One GPU model; figures are per GPU."""

    key: str
    model: str
    vendor: str
    min_watts: float
    default_watts: float
    max_watts: float
    idle_watts: float
    memory_gib: float
    #: Dense half-precision throughput with matrix units, the measure of density.
    fp16_tflops: float
    #: What demanding jobs draw without a cap: measured for this model, else the typical share of the default limit.
    natural_watts: float
    curve: PowerCurve
    source: str
    #: Over A100 SXM 80 GB; None without a published figure.
    work_per_gpu: WorkRate | None = None
    #: Whether what a cap costs was measured on this very model, and not carried over from others.
    cap_measured: bool = False

    @property
    def knee_watts(self) -> float:
        """The cap below which the energy per unit of work rises, for demanding jobs and without what is around it."""
        return self.curve.response.knee_watts(self.natural_watts, self.idle_watts)


Spec = TypeVar("Spec", CpuSpec, GpuSpec)


@dataclass(frozen=True, slots=True)
class Match(Generic[Spec]):
    """An entry of the inventory and how well it fits."""

    spec: Spec
    exactness: Exactness
    #: The model that was looked up, in one spelling; another than `spec.model` where the entry only stands for it.
    model: str
    #: Whether the name is of a segment that the inventory does not list, such as a desktop: no number and
    #: no CPUID makes a server of it, though they often agree.
    other_segment: bool = False


@dataclass(frozen=True, slots=True)
class Reference:
    """The node and the GPU that have density 1."""

    cpu: CpuSpec
    sockets: int
    gpu: GpuSpec


@dataclass(frozen=True, slots=True)
class _Generation:
    """Generation of CPUs, by which models that are not listed are recognised."""

    vendor: str
    brand: str
    pattern: re.Pattern[str]
    #: As virtual machines name it: without separators, such as `icelake`.
    name: str
    proxy: CpuSpec
    cpuid: frozenset[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _GpuName:
    words: frozenset[str]
    match: Match[GpuSpec]


#: Words that name a vendor, or a brand that only one vendor has.
_CPU_VENDORS: Final = {
    "amd": "AMD",
    "authenticamd": "AMD",
    "epyc": "AMD",
    "genuineintel": "Intel",
    "intel": "Intel",
    "xeon": "Intel",
}
_GPU_VENDORS: Final = {word: vendor.name for vendor in GPU_VENDORS for word in vendor.words}
#: Words of desktop, laptop and embedded processors -> what stands for them; their numbers are servers' numbers as well.
_OTHER_SEGMENTS: Final = {
    # A workstation's: as many watts as a server's.
    **dict.fromkeys(("threadripper", "opteron"), "AMD"),
    **dict.fromkeys(("ryzen", "athlon", "phenom", "fx", "sempron"), "AMD desktop"),
    # After AMD's, whose names count "cores".
    **dict.fromkeys(("core", "i3", "i5", "i7", "i9", "ultra", "pentium", "celeron", "atom"), "Intel desktop"),
}
#: Words beside `xeon` for workstations (W), entry servers (E), the edge (D), and generations before Scalable.
_OTHER_XEONS: Final = frozenset({"w", "w3", "w5", "w7", "w9", "e", "e3", "e5", "e7", "d", "phi"})
#: Words of model strings that do not identify the model.
_NOISE: Final = frozenset({"cpu", "processor"})
_MODEL_NUMBER: Final = re.compile(r"[0-9][0-9A-Z]{3,5}")
_SEPARATORS: Final = re.compile(r"\((?:r|tm|c)\)|[^a-z0-9.]+")


def words(raw: str) -> tuple[str, ...]:
    """Return the lower-case words of a model string, without marks and separators: what look-ups compare."""
    return tuple(word for word in _SEPARATORS.split(raw.lower()) if word)


def inventory_data() -> dict[str, Any]:
    """Return the data that ship with the package, as `Inventory` takes them."""
    data, models, rates = (
        tomllib.loads(files("joulie_core.hardware").joinpath(name).read_text(encoding="utf-8"))
        for name in ("inventory.toml", "power_models.toml", "work_rates.toml")
    )
    return data | {
        "response": data["response"] | models["response"],
        "curve": models["curve"],
        "natural_share": models["natural_share"],
        "work_rates": rates,
    }


class Inventory:
    """All known models. Immutable; `Inventory.load()` gives the one that ships with the package."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        rates = WorkRates.read(data["work_rates"])
        responses = {name: _response(entry) for name, entry in data["response"].items()}
        curves = {name: _curve(entry, responses) for name, entry in data["curve"].items()}
        self.cpus: Mapping[str, CpuSpec] = {
            each.key: each for entry in data["cpu"] for each in _cpus(entry, curves, rates)
        }
        self.gpus: Mapping[str, GpuSpec] = {
            each.key: each
            for each in (_gpu(entry, responses, data["natural_share"]["gpu"], rates) for entry in data["gpu"])
        }
        self._generations = tuple(_generation(entry, self.cpus) for entry in data["cpu"])
        self._by_number = {key.rpartition("-")[2].upper(): spec for key, spec in self.cpus.items()}
        self._gpu_names = tuple(name for entry in data["gpu"] for name in _names(entry, self.gpus))
        self._generic_cpus = {
            vendor: _generic_cpu(vendor, self.cpus[entry["like"]]) for vendor, entry in data["generic_cpu"].items()
        }
        self._generic_gpus = {
            vendor: _generic_gpu(vendor, self.gpus[entry["like"]]) for vendor, entry in data["generic_gpu"].items()
        }
        reference = data["reference"]
        self.reference = Reference(self.cpus[reference["cpu"]], reference["sockets"], self.gpus[reference["gpu"]])

    @staticmethod
    @lru_cache(maxsize=1)
    def load() -> "Inventory":
        """Return the inventory that ships with the package."""
        return Inventory(inventory_data())

    def find_cpu(self, raw: str) -> Match[CpuSpec] | None:
        """Return the entry for a raw CPU model string; None where not even the vendor is recognised."""
        parts = words(raw)
        segment = _other_segment(parts)
        if segment:
            return Match(self.generic_cpu(segment), Exactness.GENERIC, _plain_name(parts), other_segment=True)
        vendor = _vendor(parts, _CPU_VENDORS)
        numbers = [part.upper() for part in parts if _MODEL_NUMBER.fullmatch(part.upper())]
        for number in numbers:
            spec = self._listed(number)
            if spec and vendor in (None, spec.vendor):
                return Match(spec, Exactness.EXACT, spec.model)
        for number in numbers:
            for each in self._generations:
                if vendor in (None, each.vendor) and each.pattern.fullmatch(number):
                    return Match(each.proxy, Exactness.PROXY, f"{each.vendor} {each.brand} {number}")
        for each in self._generations:
            if vendor == each.vendor and each.name in "".join(parts):
                return Match(each.proxy, Exactness.PROXY, f"{each.vendor} {each.brand} {each.proxy.generation}")
        return Match(self.generic_cpu(vendor), Exactness.GENERIC, _plain_name(parts)) if vendor else None

    def _listed(self, number: str) -> CpuSpec | None:
        spec = self._by_number.get(number)
        if spec is None and number.endswith("P"):
            # AMD's single-socket variants (7713P) have the figures of the model without P.
            base = self._by_number.get(number[:-1])
            spec = base if base and base.vendor == "AMD" else None
        return spec

    def find_cpu_by_id(self, vendor: str, family: int, model: int) -> Match[CpuSpec] | None:
        """Return the entry for the CPUID that NFD publishes (vendor, family, model)."""
        known = _vendor(words(vendor), _CPU_VENDORS)
        for each in self._generations:
            if each.vendor == known and (family, model) in each.cpuid:
                return Match(each.proxy, Exactness.PROXY, f"{each.vendor} {each.brand} {each.proxy.generation}")
        return (
            Match(self.generic_cpu(known), Exactness.GENERIC, f"{known} family {family} model {model}")
            if known
            else None
        )

    def find_gpu(self, raw: str) -> Match[GpuSpec] | None:
        """Return the entry for a raw GPU model string; None where not even the vendor is recognised."""
        parts = words(raw)
        present = frozenset(parts)
        found = [each for each in self._gpu_names if each.words <= present]
        if found:
            return max(found, key=lambda each: (len(each.words), each.match.exactness is Exactness.EXACT)).match
        vendor = _vendor(parts, _GPU_VENDORS)
        return Match(self.generic_gpu(vendor), Exactness.GENERIC, _plain_name(parts)) if vendor else None

    def generic_cpu(self, vendor: str | None) -> CpuSpec:
        """Return what stands for an unknown CPU of a vendor, of a vendor's desktops (`Intel desktop`), or of none."""
        return self._generic_cpus.get(vendor or "unknown", self._generic_cpus["unknown"])

    def generic_gpu(self, vendor: str | None) -> GpuSpec:
        """Return what stands for an unknown GPU of a vendor, or of none."""
        return self._generic_gpus.get(vendor or "unknown", self._generic_gpus["unknown"])


def _vendor(parts: Iterable[str], vendors: Mapping[str, str]) -> str | None:
    return next((vendors[part] for part in parts if part in vendors), None)


def _other_segment(parts: Sequence[str]) -> str | None:
    """Return what stands for a processor that is not of a listed brand, going by its name; None where it may be."""
    if "xeon" in parts:
        return "Intel" if _OTHER_XEONS.intersection(parts) else None
    if "epyc" in parts:
        return None
    found = [each for word, each in _OTHER_SEGMENTS.items() if word in parts]
    # "Threadripper" follows "Ryzen" and is more specific.
    return next((each for each in found if not each.endswith("desktop")), found[0] if found else None)


def _plain_name(parts: Sequence[str]) -> str:
    """Return one spelling of a model of which only the vendor is known."""
    end = next((index for index, part in enumerate(parts) if part.endswith("ghz")), len(parts))
    return " ".join(part for part in parts[:end] if part not in _NOISE)


def _key(text: str) -> str:
    return "-".join(words(text))


def _curve(entry: Mapping[str, Any], responses: Mapping[str, CapResponse]) -> PowerCurve:
    return PowerCurve(tuple(entry["shares"]), responses[entry["response"]], entry["source"])


def _response(entry: Mapping[str, Any]) -> CapResponse:
    # TOML has no null: a law without the key has the device's own idle power.
    return CapResponse(entry.get("static_share"), entry["exponent"], entry["lowest"], entry["source"])


def _cpus(entry: Mapping[str, Any], curves: Mapping[str, PowerCurve], rates: WorkRates) -> Iterable[CpuSpec]:
    for number, cores, base_ghz, boost_ghz, tdp_watts in entry["models"]:
        name = f"{entry['vendor']} {entry['brand']} {number}"
        yield CpuSpec(
            key=_key(name),
            model=name,
            vendor=entry["vendor"],
            generation=entry["generation"],
            cores=cores,
            threads_per_core=entry.get("threads_per_core", 2),
            base_ghz=base_ghz,
            boost_ghz=boost_ghz,
            max_watts=tdp_watts,
            min_watts=tdp_watts * entry["min_share"],
            ipc=entry["ipc"],
            curve_name=entry["curve"],
            curve=curves[entry["curve"]],
            source=entry["source"],
            work_per_thread=rates.threads.get((entry["generation"], number)),
        )


def _generation(entry: Mapping[str, Any], cpus: Mapping[str, CpuSpec]) -> _Generation:
    return _Generation(
        vendor=entry["vendor"],
        brand=entry["brand"],
        name=entry["generation"].replace("-", ""),
        pattern=re.compile(entry["pattern"]),
        proxy=cpus[_key(f"{entry['vendor']} {entry['brand']} {entry['proxy']}")],
        cpuid=frozenset((family, model) for family, model in entry["cpuid"]),
    )


def _gpu(
    entry: Mapping[str, Any],
    responses: Mapping[str, CapResponse],
    natural_shares: Mapping[str, float],
    rates: WorkRates,
) -> GpuSpec:
    key = _key(entry["model"])
    min_watts, default_watts, max_watts = entry["watts"]
    # Between idle and full load GPUs are taken as linear: there is no public load curve as for servers.
    curve = PowerCurve((entry["idle_watts"] / max_watts, 1.0), responses[entry["response"]], entry["source"])
    return GpuSpec(
        key=key,
        model=entry["model"],
        vendor=entry["model"].split()[0],
        min_watts=min_watts,
        default_watts=default_watts,
        max_watts=max_watts,
        idle_watts=entry["idle_watts"],
        memory_gib=entry["memory_gib"],
        fp16_tflops=entry["fp16_tflops"],
        natural_watts=default_watts * natural_shares.get(key, natural_shares["typical"]),
        curve=curve,
        source=entry["source"],
        work_per_gpu=rates.gpus.get(entry["model"]),
        # A model with a share of its own is one of the sweeps.
        cap_measured=key in natural_shares,
    )


def _names(entry: Mapping[str, Any], gpus: Mapping[str, GpuSpec]) -> Iterable[_GpuName]:
    spec = gpus[_key(entry["model"])]
    named = [*entry["exact"], list(words(entry["model"]))]
    for exactness, names in ((Exactness.EXACT, named), (Exactness.PROXY, entry.get("proxy", ()))):
        for name in names:
            model = spec.model if exactness is Exactness.EXACT else " ".join((spec.vendor, *name)).upper()
            yield _GpuName(frozenset(name), Match(spec, exactness, model))


def _generic_cpu(vendor: str, like: CpuSpec) -> CpuSpec:
    return replace(
        like,
        key=f"generic-{_key(vendor)}-cpu",
        model=f"generic {vendor} CPU",
        vendor=_known(vendor),
        source=f"as {like.model}",
        generic=True,
        # Of a model that is not known nothing is published.
        work_per_thread=None,
    )


def _generic_gpu(vendor: str, like: GpuSpec) -> GpuSpec:
    return replace(
        like,
        key=f"generic-{vendor.lower()}-gpu",
        model=f"generic {vendor} GPU",
        vendor=_known(vendor),
        source=f"as {like.model}",
        work_per_gpu=None,
        cap_measured=False,
    )


def _known(vendor: str) -> str:
    return "" if vendor == "unknown" else vendor.partition(" ")[0]
