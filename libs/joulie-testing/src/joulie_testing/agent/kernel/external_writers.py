"""External writers and the platform of a machine, and the values that its controls must have after a restore.

Acts as external writers do, through the machine, and records it: after a restore a control has the newest external
value. Where that cannot be known, other values are accepted too: for an external request that a platform limit hid from
the first reading on, the value before; for one that was hidden before the first throttle, the highest frequency (see
docs/decisions/0006-kernel-semantics.md).
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from joulie_testing.agent.kernel.behaviour import PolicyReturn
from joulie_testing.agent.kernel.machine import KernelMachine

_CPUFREQ: Final = "devices/system/cpu/cpufreq"
_UW_PER_WATT: Final = 1_000_000
_OF_POLICY_FILES: Final = {"scaling_max_freq": "", "scaling_min_freq": "/min", "scaling_governor": "/governor"}


class ExternalWriters:
    """All writers except the agent. Controls have the names of `KernelMachine.registers` and `class_controls`."""

    def __init__(self, machine: KernelMachine, cpus: Mapping[int, int], policy_return: PolicyReturn) -> None:
        """Start with a machine without external values.

        Args:
            machine: in this process, or a mounted one.
            cpus: the package of every CPU; each CPU has a policy of its own, each package one zone.
            policy_return: what policies return with.
        """
        self._machine = machine
        self._package = cpus
        self._policy_return = policy_return
        self.fresh: dict[str, int | str] = {**machine.registers(), **machine.class_controls()}
        self.policies = tuple(name for name in machine.registers() if name.startswith("policy"))
        #: What each control may hold after a restore; more than one value where it cannot be known.
        self._wanted: dict[str, set[int | str]] = {key: {value} for key, value in self.fresh.items()}
        #: What was wanted before an external request that the agent has not read yet.
        self._unseen: dict[str, set[int | str]] = {}
        #: Who limits a policy besides its users.
        self._limited: dict[str, set[str]] = {}
        self.offline: frozenset[int] = frozenset()
        #: What has happened since `settle`, to find the cause of a failure.
        self.story: list[str] = []

    # --- what others do ---

    def request(self, policy: str, khz: int) -> None:
        """Let a user request a frequency."""
        self.story.append(f"{policy} is requested to {khz} kHz")
        before = self._wanted[policy]
        self._machine.external_write(f"{_CPUFREQ}/{policy}/scaling_max_freq", khz)
        unseen = self._unseen[policy] = before | self._unseen.get(policy, set())
        self._wanted[policy] = {khz, *(unseen if policy in self._limited else ())}

    def set_power(self, zone: str, watts: int) -> None:
        """Let a user set a zone's long-term limit."""
        self.story.append(f"{zone} is set to {watts} W")
        self._machine.external_write(self._machine.limit_path(zone), watts * _UW_PER_WATT)
        self._wanted[f"{zone}/long_term"] = {watts * _UW_PER_WATT}

    def prefer(self, policy: str, word: str) -> None:
        """Let a user set the energy performance preference, unless the governor forbids that."""
        if self._machine.class_controls()[f"{policy}/governor"] == "performance":
            return
        self.story.append(f"{policy} is to prefer {word}")
        self._machine.external_write(f"{_CPUFREQ}/{policy}/energy_performance_preference", word)
        self._wanted[f"{policy}/epp"] = {word}

    def enable_idle_state(self, cpu: int, index: int, name: str) -> None:
        """Let a user enable an idle state; it may be enabled already."""
        self.story.append(f"{name} of CPU {cpu} is enabled")
        self._machine.external_write(f"devices/system/cpu/cpu{cpu}/cpuidle/state{index}/disable", 0)
        self._wanted[f"cpu{cpu}/{name}"] = {0}

    def limit_policy(self, policy: str, khz: int | None) -> None:
        """Let firmware limit a policy, or lift that."""
        self.story.append(f"{policy} is limited to {khz} kHz")
        self._machine.set_platform_limit(policy, khz)
        self._note_limit([policy], "firmware", limits=khz is not None)

    def cool(self, package: int, state: int) -> None:
        """Let the thermal framework limit a package, or lift that."""
        self.story.append(f"package {package} is cooled at {state}")
        self._machine.set_thermal_state(package, state)
        policies = [f"policy{cpu}" for cpu, place in self._package.items() if place == package]
        self._note_limit(policies, "thermal", limits=state > 0)

    def stop(self, cpus: Collection[int]) -> None:
        """Take CPUs offline; with the last one of a package its zone goes, which the kernel switches off."""
        self.story.append(f"CPUs {sorted(cpus)} stop")
        self.offline |= frozenset(cpus)
        self._machine.set_online(*cpus, online=False)
        for zone in self.vanished_zones():
            self._wanted[f"{zone}/enabled"] = {0}

    def start(self) -> None:
        """Bring all CPUs online."""
        self.story.append("all CPUs start")
        self._machine.set_online(*self.offline)
        if self._policy_return is PolicyReturn.DEFAULTS:
            for policy in (f"policy{cpu}" for cpu in self.offline):
                for key in (policy, *_of_policy(policy)):
                    self._wanted[key] = {self.fresh[key]}
                self._unseen.pop(policy, None)
        self.offline = frozenset()

    def vanished_zones(self) -> frozenset[str]:
        """Return the zones of packages without an online CPU."""
        there = {package for cpu, package in self._package.items() if cpu not in self.offline}
        return frozenset(f"package-{package}" for package in set(self._package.values()) - there)

    # --- what the agent does ---

    def about_to_throttle(self) -> None:
        """Record a throttle: a request that a limit hides at the first read is not known."""
        for policy in self._limited:
            self._wanted[policy] |= {self.fresh[policy]}

    def has_looked(self) -> None:
        """Account for a throttle that has ended: it has seen every request that no limit hides."""
        self._unseen = {policy: values for policy, values in self._unseen.items() if policy in self._limited}

    # --- what must be true ---

    def out_of_reach(self) -> frozenset[str]:
        """Return the controls that cannot be restored now."""
        zones = {f"{zone}/{control}" for zone in self.vanished_zones() for control in ("long_term", "enabled")}
        policies = {f"policy{cpu}" for cpu in self.offline}
        return frozenset(policies | {key for policy in policies for key in _of_policy(policy)} | zones)

    def settle(self, left: Collection[str]) -> dict[str, tuple[int | str, set[int | str]]]:
        """Compare the machine after a restore: what each wrong control holds, and what it may.

        Args:
            left: controls that the agent reports as still managed; accepted only
                where they are out of reach.
        """
        found: dict[str, int | str] = {**self._machine.registers(), **self._machine.class_controls()}
        gone = self.out_of_reach()
        wrong = {
            key: (value, self._wanted[key])
            for key, value in found.items()
            if value not in self._wanted[key] and not (key in gone and key in left)
        }
        for key in found.keys() - set(left):
            self._wanted[key] = {found[key]}
        self._unseen = {policy: values for policy, values in self._unseen.items() if policy in left}
        self.story.append(f"settled, {sorted(left)} left, {sorted(wrong)} wrong")
        return wrong

    def _note_limit(self, policies: Iterable[str], source: str, *, limits: bool) -> None:
        for policy in policies:
            sources = self._limited.pop(policy, set()) - {source}
            if limits:
                self._wanted[policy] |= self._unseen.get(policy, set())
                sources |= {source}
            if sources:
                self._limited[policy] = sources


def register_of(key: str) -> str:
    """Translate the agent's name of a control: `cpufreq/cpu4/scaling_max_freq`, `rapl/package-0/long_term`."""
    kind, subject, *control = key.split("/")
    match kind, control:
        case "cpufreq", [file]:
            return subject.replace("cpu", "policy") + _OF_POLICY_FILES[file]
        case "epp", []:
            return subject.replace("cpu", "policy") + "/epp"
        case _:
            return "/".join([subject, *control])


def _of_policy(policy: str) -> tuple[str, ...]:
    return tuple(f"{policy}/{control}" for control in ("min", "governor", "epp"))
