"""The rounds of a campaign: one poison of each subject among 50 good ones, a judgement, and the search for culprits."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from random import Random
from typing import Any, Final

import aiohttp
from tools.hostile.backends import transports
from tools.hostile.documents import control_reply, extender_args, kinds, prometheus_answer, telemetry
from tools.hostile.grammar import Grammar
from tools.hostile.site import Site

_KINDS: Final = kinds()
_ANSWERS: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "agent telemetry": lambda: telemetry("sink-1"),
    "agent control": lambda: control_reply(240.0),
    "power source": lambda: telemetry("sink-1"),
    "Prometheus": lambda: prometheus_answer(time.time()),
}
#: What services ask for at intervals, without a cause; a control is asked for when a cap changes.
_POLLED: Final = frozenset({"agent telemetry", "power source", "Prometheus"})
_POSTS: Final = ("/filter", "/prioritize", "/debug/explain")
SUBJECTS: Final = (*_KINDS, *_ANSWERS, "Redfish", "IPMI", "kube-scheduler")
_CHECK_EVERY: Final = 5
#: Poison is an item of a list in one of so many rounds, an event of a watch in all.
_LIST_EVERY: Final = 4
#: Enough to act on; a campaign that has found so many ends.
_ENOUGH: Final = 12
_BMC_S: Final = 4.0
_POLL_S: Final = 4.0
_SLOW_POST_S: Final = 20.0
#: Time for good objects to be as they were, and the same while a culprit is looked for.
_LATER_S, _SOON_S = 30.0, 10.0


@dataclass(frozen=True, slots=True)
class Case:
    """One poison of one subject; `label` is what was done, `sent` whether anything read it."""

    round: int
    subject: str
    label: str
    planted: bool


@dataclass(frozen=True, slots=True)
class Violation:
    """A failure that must not happen, and the case that alone reproduces it; with `culprit` None none does alone."""

    service: str
    what: str
    round: int
    culprit: Case | None


@dataclass(slots=True)
class Outcome:
    """Result of a campaign."""

    cases: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By subject and `planted` or `refused`."""
    families: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By subject and family of poison."""
    set_aside: Counter[str] = field(default_factory=Counter)
    """Inputs that were counted as invalid, by service and source."""
    violations: list[Violation] = field(default_factory=list)
    peaks_mib: dict[str, float] = field(default_factory=dict)
    duration_s: float = 0.0

    @property
    def total(self) -> int:
        """Number of cases."""
        return self.cases.total()


class Campaign:
    """Runs rounds on one site."""

    def __init__(self, site: Site, *, seed: int, subjects: Iterable[str] = SUBJECTS) -> None:
        self.outcome = Outcome()
        self._site = site
        self._seed = seed
        self._subjects = tuple(subjects)
        self._counters: dict[tuple[str, str], float] = {}

    async def run(
        self,
        cases: int,
        *,
        progress: Callable[[str], None] | None = None,
        search: bool = True,
        enough: int = _ENOUGH,
    ) -> Outcome:
        """Plant this many cases, and end early after `enough` violations.

        With `search`, the culprit of each violation is looked for, in fresh processes.
        """
        started, number, outcome = time.monotonic(), 0, self.outcome
        await self._count()
        while outcome.total < cases and len(outcome.violations) < enough:
            found, planted = await self.round(number, self._subjects)
            if found:
                outcome.violations.extend(await self._culprits(number, found) if search else _unsearched(number, found))
                if progress is not None:
                    progress("\n".join(describe(each, self._seed) for each in outcome.violations[-len(found) :]))
                if len(outcome.violations) < enough:
                    await self._restart()
            for case in planted:
                outcome.cases[case.subject, "planted" if case.planted else "refused"] += 1
                outcome.families[case.subject, case.label.partition("/")[0]] += 1
            number += 1
            outcome.duration_s = time.monotonic() - started
            if progress is not None and number % 25 == 0:
                progress(
                    f"{outcome.total}/{cases} cases, {len(outcome.violations)} violations, {outcome.duration_s:.0f} s"
                )
        return outcome

    async def round(
        self, number: int, subjects: Iterable[str], *, patient: bool = False
    ) -> tuple[list[tuple[str, str]], list[Case]]:
        """Plant one poison of each subject, touch good objects, judge, and remove the poison.

        Returns:
            What is wrong, by service; and the cases.
        """
        site, planted, documents = self._site, list[Case](), list[dict[str, Any]]()
        subjects = set(subjects)
        labels: dict[str, str] = {}
        site.backends.asked.clear()
        try:
            for subject in sorted(subjects & _KINDS.keys()):
                dice = self._dice(number, subject)
                document = json.loads(json.dumps(dice.choice(_KINDS[subject])))
                poison, accepted = await site.api.plant(Grammar(dice), document)
                documents.append(document)
                planted.append(Case(number, subject, poison.label, accepted))
            for subject in sorted(subjects & _ANSWERS.keys()):
                dice = self._dice(number, subject)
                poison = Grammar(dice).draw(_ANSWERS[subject]())
                name, site.backends.answers[subject] = transports(dice, poison)
                labels[subject] = f"{poison.label} {name}".strip()
            if number % _LIST_EVERY == _LIST_EVERY - 1 or patient:
                await site.api.relist()
            await self._asked(labels.keys() & _POLLED)
            wrong = await self._judge(number, subjects, planted, patient=patient)
            planted += [Case(number, each, label, each in site.backends.asked) for each, label in labels.items()]
        finally:
            site.backends.answers.clear()
            site.bmc.disarm()
            site.ipmi.datagrams = []
            for document in documents:
                await site.api.remove(document)
        return wrong, planted

    async def _judge(
        self, number: int, subjects: set[str], planted: list[Case], *, patient: bool
    ) -> list[tuple[str, str]]:
        site = self._site
        wrong: list[tuple[str, str]] = []
        if subjects & {"Redfish", "IPMI", "Secret"}:
            planted += await self._visit(number, subjects)
        if "kube-scheduler" in subjects:
            planted.append(await self._post(number, wrong))
        wrong += await site.touch(number, within_s=_SOON_S if patient else _LATER_S)
        if patient:
            await asyncio.sleep(3)
        if number % _CHECK_EVERY == 0 or wrong or patient:
            wrong += await site.differences(within_s=_SOON_S if patient else _LATER_S)
        for process in site.processes.values():
            wrong += [(process.name, each) for each in process.problems()]
            self.outcome.peaks_mib[process.name] = max(self.outcome.peaks_mib.get(process.name, 0), process.peak_mib)
        return wrong + await self._count()

    async def _count(self) -> list[tuple[str, str]]:
        """Add up what was set aside, and return the defects that were counted since the last call."""
        wrong = []
        for process in self._site.processes.values():
            for series, value in (await process.counters()).items():
                more = value - self._counters.get((process.name, series), 0)
                self._counters[process.name, series] = value
                if more <= 0:
                    continue
                if series.startswith("joulie_internal_errors_total"):
                    lines = process.log_lines("internal error", "Traceback")
                    wrong.append((process.name, f"{series} {' '.join(lines)[-1500:]}"))
                elif series.startswith("joulie_invalid_input_total"):
                    self.outcome.set_aside[f"{process.name} {series.partition('{')[2].rstrip('}')}"] += int(more)
        return wrong

    async def _asked(self, subjects: Iterable[str]) -> None:
        """Wait until poison was sent as the answer of each subject, or for some seconds."""
        deadline, missing = time.monotonic() + _POLL_S, set(subjects)
        while missing - self._site.backends.asked.keys() and time.monotonic() < deadline:  # noqa: ASYNC110 - polled, as BMCs
            await asyncio.sleep(0.02)

    async def _visit(self, number: int, subjects: set[str]) -> list[Case]:
        """Have both poisoned BMCs answer."""
        site, found, dice = self._site, list[Case](), self._dice(number, "Redfish")
        label, asked = "", site.ipmi.asked
        if "IPMI" in subjects:
            label = site.ipmi.arm(self._dice(number, "IPMI"))
        if "Redfish" in subjects:
            site.bmc.arm(dice)
        await site.visit_bmcs(number)
        deadline = time.monotonic() + _BMC_S
        while time.monotonic() < deadline and (  # noqa: ASYNC110 - the event is in another process
            ("Redfish" in subjects and not site.bmc.label) or ("IPMI" in subjects and site.ipmi.asked == asked)
        ):
            await asyncio.sleep(0.02)
        if "Redfish" in subjects:
            found.append(Case(number, "Redfish", site.bmc.label or "none/not asked", bool(site.bmc.label)))
        if "IPMI" in subjects:
            found.append(Case(number, "IPMI", label, site.ipmi.asked > asked))
        return found

    async def _post(self, number: int, wrong: list[tuple[str, str]]) -> Case:
        """Send poison as kube-scheduler."""
        dice = self._dice(number, "kube-scheduler")
        poison = Grammar(dice).draw(extender_args())
        try:
            async with self._site.http.post(
                self._site.extender + dice.choice(_POSTS),
                data=BytesIO(poison.raw),
                headers={"Content-Type": "application/json"},
                timeout=aiohttp.ClientTimeout(total=_SLOW_POST_S),
            ) as answer:
                await answer.read()
                if answer.status >= 500:  # noqa: PLR2004 - HTTP's errors of the server
                    wrong.append(("extender", f"answers {answer.status}"))
        except aiohttp.ServerDisconnectedError:
            pass  # a body that is refused before it is read
        except (aiohttp.ClientError, TimeoutError) as error:
            wrong.append(("extender", f"does not answer: {type(error).__name__}"))
        return Case(number, "kube-scheduler", poison.label, planted=True)

    def _dice(self, number: int, subject: str) -> Random:
        return Random(f"{self._seed} {number} {subject}")

    # --- what caused it ---------------------------------------------------------------------------------------------

    async def _culprits(self, number: int, found: list[tuple[str, str]]) -> list[Violation]:
        """Repeat a round with fewer and fewer subjects, until one is left that has the same service fail."""
        violations = []
        for service, what in dict(reversed(found)).items():
            case, seen = await self._culprit(number, service) or (None, what)
            violations.append(Violation(service, seen, number, case))
        return violations

    async def _culprit(self, number: int, service: str) -> tuple[Case, str] | None:
        subjects = self._subjects
        while True:
            half = (len(subjects) + 1) // 2
            for part in filter(None, (subjects[:half], subjects[half:])):
                await self._restart()
                wrong, cases = await self.round(number, part, patient=True)
                same = [what for each, what in wrong if each == service]
                if same:
                    break
            else:
                return None
            if len(part) == 1:
                return cases[0], same[0]
            subjects = part

    async def _restart(self) -> None:
        """Start those that have ended, and take what is published then for right if it is as before."""
        site = self._site
        for process in site.processes.values():
            if not process.alive:
                # What has ended without releasing its lease would be waited for.
                await site.free_lease(process.service)
                await process.restart()
        await self._settled()
        await self._count()
        for process in site.processes.values():
            process.problems()

    async def _settled(self) -> None:
        left = await self._site.differences(within_s=40)
        if left:
            for process in self._site.processes.values():
                if process.name in {service for service, _ in left}:
                    await process.restart()
            await self._site.differences(within_s=40)


def _unsearched(number: int, found: list[tuple[str, str]]) -> list[Violation]:
    return [Violation(service, what, number, None) for service, what in dict(reversed(found)).items()]


def describe(violation: Violation, seed: int) -> str:
    """Return a violation with the command that repeats it."""
    case = violation.culprit
    again = f"--round {violation.round}" + (f" --subject {case.subject!r}" if case else "")
    label = f"{case.subject}: {case.label}" if case else "several cases together"
    return f"VIOLATION {violation.service}: {violation.what}\n  by {label}\n  again: just hostile --seed {seed} {again}"


def summary(outcome: Outcome, *, limits: Mapping[str, float]) -> str:
    """Return the tables."""
    families = sorted({family for _, family in outcome.families})
    rows = [("subject", "planted", "refused", *families)]
    for subject in SUBJECTS:
        planted, refused = outcome.cases[subject, "planted"], outcome.cases[subject, "refused"]
        if planted + refused:
            rows.append(
                (subject, str(planted), str(refused), *(str(outcome.families[subject, each]) for each in families))
            )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines += ["", "set aside, by service and source:"]
    lines += [f"  {name}: {number}" for name, number in sorted(outcome.set_aside.items())]
    lines += ["", "most memory:"]
    lines += [f"  {name}: {peak:.0f} MiB of {limits[name]:.0f} MiB" for name, peak in outcome.peaks_mib.items()]
    lines += ["", f"{outcome.total} cases in {outcome.duration_s:.0f} s, {len(outcome.violations)} violations"]
    return "\n".join(lines)


def limits_by_name(site: Site) -> dict[str, float]:
    """Return the memory limits by the name of the service."""
    return {process.name: process.limit_mib for process in site.processes.values()}
