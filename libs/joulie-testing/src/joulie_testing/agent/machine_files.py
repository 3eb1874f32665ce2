"""The files of /sys and /proc that the agent reads or writes, as a kernel lays them out for a machine.

Names, modes, values and symbolic links are those of the kernel; `joulie_testing.agent.fake_sysfs` adds behaviour.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from joulie_testing.agent.kernel.parse import cpu_list
from joulie_testing.agent.machine_spec import Cpu, Limit, MachineSpec, Zone

UW_PER_WATT: Final = 1_000_000
CPU_ROOT: Final = "devices/system/cpu"
POWERCAP: Final = "devices/virtual/powercap"
_TIME_WINDOW_US: Final = 999_424
_READ_ONLY: Final = 0o444
_ROOT_ONLY: Final = 0o400
_WRITABLE: Final = 0o644


class MachineFiles:
    """Writes below `sys` and `proc`."""

    def __init__(self, sys: Path, proc: Path, spec: MachineSpec) -> None:
        self._sys = sys
        self._proc = proc
        self._spec = spec

    def put_memory(self) -> None:
        """Write /proc/meminfo."""
        kilobytes = self._spec.memory_bytes // 1024
        text = f"MemTotal:       {kilobytes} kB\nMemFree:        {kilobytes // 2} kB\n"
        (self._proc / "meminfo").write_text(text, encoding="ascii")

    # --- CPUs ---

    def put_cpus(self, offline: frozenset[int]) -> None:
        """Write topology, policies and /proc/cpuinfo, in place of what there is."""
        cpus = self._spec.cpus()
        online = [cpu for cpu in cpus if cpu.number not in offline]
        shutil.rmtree(self._sys / CPU_ROOT, ignore_errors=True)
        self._put(f"{CPU_ROOT}/online", cpu_list(cpu.number for cpu in online))
        self._put(f"{CPU_ROOT}/present", f"0-{len(cpus) - 1}")
        self._put(f"{CPU_ROOT}/offline", cpu_list(offline))
        for cpu in cpus:
            self._put(f"{CPU_ROOT}/cpu{cpu.number}/uevent", "")
            self._put_idle_states(cpu)
            if cpu.number not in offline:
                self._put_place(cpu, online)
        if self._spec.efficiency_cores:
            self._put("devices/cpu_core/cpus", cpu_list(cpu.number for cpu in online if not cpu.efficient))
            self._put("devices/cpu_atom/cpus", cpu_list(cpu.number for cpu in online if cpu.efficient))
        self._put_policies(online)
        (self._proc / "cpuinfo").write_text("\n".join(self._processor(cpu) for cpu in online) + "\n", encoding="ascii")

    def _put_place(self, cpu: Cpu, online: list[Cpu]) -> None:
        directory = f"{CPU_ROOT}/cpu{cpu.number}/topology"
        siblings = cpu_list(each.number for each in online if each.core_id == cpu.core_id)
        self._put(f"{directory}/physical_package_id", cpu.package)
        self._put(f"{directory}/die_id", cpu.die)
        self._put(f"{directory}/core_id", cpu.core)
        self._put(f"{directory}/core_cpus_list", siblings)
        self._put(f"{directory}/thread_siblings_list", siblings)
        if self._spec.nominal_mhz is not None:
            self._put(f"{CPU_ROOT}/cpu{cpu.number}/acpi_cppc/nominal_freq", self._spec.nominal_mhz)

    def _put_idle_states(self, cpu: Cpu) -> None:
        for index, name in enumerate(self._spec.idle_states):
            directory = f"{CPU_ROOT}/cpu{cpu.number}/cpuidle/state{index}"
            self._put(f"{directory}/name", name)
            self._put(f"{directory}/disable", 0, _WRITABLE)

    def _put_policies(self, online: list[Cpu]) -> None:
        for related in self._spec.policy_groups():
            affected = [cpu for cpu in related if cpu in online]
            if affected:
                self._put_policy(related, affected)

    def _put_policy(self, related: Sequence[Cpu], affected: list[Cpu]) -> None:
        spec = self._spec
        directory = f"{CPU_ROOT}/cpufreq/policy{related[0].number}"
        highest_khz = spec.highest_khz_of(related[0])
        values: dict[str, int | str] = {
            "related_cpus": " ".join(str(cpu.number) for cpu in related),
            "affected_cpus": " ".join(str(cpu.number) for cpu in affected),
            "cpuinfo_min_freq": spec.lowest_khz,
            "cpuinfo_max_freq": highest_khz,
            "scaling_min_freq": spec.lowest_khz,
            "scaling_max_freq": highest_khz,
            "scaling_cur_freq": spec.lowest_khz,
            "scaling_driver": spec.driver,
            "scaling_governor": spec.governor,
        }
        if spec.base_khz is not None:
            values["base_frequency"] = spec.base_khz
        for name, value in values.items():
            writable = name in {"scaling_min_freq", "scaling_max_freq", "scaling_governor"}
            self._put(f"{directory}/{name}", value, _WRITABLE if writable else _READ_ONLY)
        for cpu in affected:
            link = self._sys / CPU_ROOT / f"cpu{cpu.number}" / "cpufreq"
            link.symlink_to(f"../cpufreq/policy{related[0].number}")

    def _processor(self, cpu: Cpu) -> str:
        spec = self._spec
        fields = {
            "processor": cpu.number,
            "vendor_id": spec.vendor,
            "cpu family": spec.family,
            "model": spec.model,
            "model name": spec.model_name,
            "physical id": cpu.package,
            "core id": cpu.core,
            "cpu cores": spec.dies * (spec.cores + spec.efficiency_cores),
        }
        return "".join(f"{name}\t: {value}\n" for name, value in fields.items())

    # --- powercap ---

    def put_powercap(self) -> None:
        """Write the zones, with the counters at zero and the limits as firmware leaves them."""
        if not self._spec.zones:
            return
        self._put(f"{POWERCAP}/intel-rapl/enabled", 1, _WRITABLE)
        self._link(f"{POWERCAP}/intel-rapl")
        number = 0
        for package in range(self._spec.sockets):
            for die in range(self._spec.dies):
                if Zone.PACKAGE in self._spec.zones:
                    self._put_package(number, f"package-{package}" + (f"-die-{die}" if self._spec.dies > 1 else ""))
                    number += 1
        if Zone.PSYS in self._spec.zones:
            self._put_zone(f"{POWERCAP}/intel-rapl/intel-rapl:{number:x}", "psys", Limit.WRITABLE)
        if Zone.MMIO in self._spec.zones:
            self._put_zone(f"{POWERCAP}/intel-rapl-mmio/intel-rapl-mmio:0", "package-0", Limit.WRITABLE)

    def _put_package(self, number: int, name: str) -> None:
        path = f"{POWERCAP}/intel-rapl/intel-rapl:{number:x}"
        self._put_zone(path, name, self._spec.limit)
        parts = [zone for zone in (Zone.CORE, Zone.UNCORE, Zone.DRAM) if zone in self._spec.zones]
        for place, zone in enumerate(parts):
            self._put_zone(f"{path}/intel-rapl:{number:x}:{place}", zone.value, Limit.WRITABLE)

    def _put_zone(self, path: str, name: str, limit: Limit) -> None:
        spec = self._spec
        self._put(f"{path}/name", name, _READ_ONLY)
        self._put(f"{path}/energy_uj", 0, _ROOT_ONLY)
        self._put(f"{path}/max_energy_range_uj", spec.energy_range_uj, _READ_ONLY)
        off = limit in {Limit.LOCKED, Limit.SWITCHED_OFF, Limit.UNREADABLE, Limit.ABSENT}
        self._put(f"{path}/enabled", 0 if off else 1, _WRITABLE)
        self._link(path)
        if limit is Limit.ABSENT:
            return
        mode = _READ_ONLY if limit is Limit.READ_ONLY else _WRITABLE
        for index, kind, watts in ((0, "long_term", spec.limit_watts), (1, "short_term", spec.short_term_watts)):
            prefix = f"{path}/constraint_{index}"
            self._put(f"{prefix}_name", kind, _READ_ONLY)
            self._put(f"{prefix}_power_limit_uw", round(watts * UW_PER_WATT), mode)
            # Firmware usually leaves the maximum of the short-term limit at zero.
            self._put(f"{prefix}_max_power_uw", 0 if index else round(spec.max_watts * UW_PER_WATT), _READ_ONLY)
            self._put(f"{prefix}_time_window_us", _TIME_WINDOW_US, mode)

    # --- files ---

    def _put(self, path: str, value: int | str, mode: int = _READ_ONLY) -> None:
        file = self._sys / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n", encoding="ascii")
        file.chmod(mode)

    def _link(self, path: str) -> None:
        """Name a powercap device in the class directory, as a relative link."""
        directory = self._sys / "class/powercap"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / Path(path).name).symlink_to(Path("../..") / path)
