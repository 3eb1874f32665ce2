"""A campaign: a site for some virtual hours under everything that happens, and what was found."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from tools.sleep_campaign.events import KINDS, happen
from tools.sleep_campaign.journal import stamp
from tools.sleep_campaign.observer import SleepViolation
from tools.sleep_campaign.site import CampaignSite, SiteSize, run_site
from tools.sleep_campaign.virtual_time import VirtualLoop

_HOUR: Final = 3600.0


@dataclass(frozen=True, slots=True)
class CampaignPlan:
    """Plan of a run; `pace` is how many times as often as usual anything but pods happens."""

    seed: int = 0
    hours: float = 24.0
    nodes: int = 40
    pace: float = 1.0
    kinds: frozenset[str] = frozenset(KINDS)


@dataclass(slots=True)
class CampaignResult:
    """Findings of a run; `logs` has the journal of each violation."""

    plan: CampaignPlan
    violations: list[SleepViolation] = field(default_factory=list)
    logs: list[list[str]] = field(default_factory=list)
    races: list[float] = field(default_factory=list)
    unended: list[float] = field(default_factory=list)
    untainted: list[float] = field(default_factory=list)
    offs: int = 0
    boots: int = 0
    pods: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    hours: float = 0.0
    took_s: float = 0.0
    #: Defects of Joulie that the services have contained, by service.
    defects: dict[str, float] = field(default_factory=dict)


def run_campaign(
    plan: CampaignPlan, *, enough: int = 10, progress: Callable[[str], None] = lambda _: None
) -> CampaignResult:
    """Run a campaign, until its hours are over or enough violations are found."""
    random.seed(plan.seed)
    result = CampaignResult(plan)
    started = monotonic()
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(_run(plan, result, enough, progress))
    result.took_s = monotonic() - started
    return result


async def _run(plan: CampaignPlan, result: CampaignResult, enough: int, progress: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()
    seed = str(plan.seed)
    async with run_site(seed, SiteSize(plan.nodes)) as site:
        observer = site.observer
        happening = loop.create_task(happen(site, seed, {each: KINDS[each] for each in sorted(plan.kinds)}, plan.pace))
        try:
            while loop.time() < plan.hours * _HOUR and len(observer.violations) < enough:
                await asyncio.sleep(min(600.0, plan.hours * _HOUR - loop.time() + 1.0))
                if happening.done():
                    happening.result()
                progress(_line(site))
        finally:
            happening.cancel()
            await asyncio.wait({happening})
        result.hours = loop.time() / _HOUR
        _take(site, result)


def _take(site: CampaignSite, result: CampaignResult) -> None:
    observer = site.observer
    result.violations, result.logs = observer.violations, observer.logs
    result.races, result.unended, result.untainted = observer.races, observer.unended, observer.untainted
    result.offs = observer.offs
    result.boots = sum(server.boots - 1 for server in site.cluster.servers.values())
    result.pods = site.cluster.made
    result.counts = site.journal.counts
    for service in site.services:
        service.count_defects()
        if service.defects:
            result.defects[service.name] = service.defects


def _line(site: CampaignSite) -> str:
    phases = Counter(server.phase.value for server in site.cluster.servers.values())
    shown = ", ".join(f"{number} {phase}" for phase, number in sorted(phases.items()))
    now_s = asyncio.get_running_loop().time()
    return f"{stamp(now_s)}  {shown}; {len(site.cluster.pods)} pods, {len(site.observer.violations)} violations"


def again(plan: CampaignPlan) -> str:
    """Return the command that repeats a campaign."""
    left_out = KINDS.keys() - plan.kinds
    option, named = ("only", plan.kinds) if plan.kinds and len(plan.kinds) < len(left_out) else ("without", left_out)
    kinds = "".join(f" --{option} {each}" for each in sorted(named))
    what = f"--seed {plan.seed} --hours {plan.hours:g} --nodes {plan.nodes} --pace {plan.pace:g}"
    return f"just sleep-campaign {what}{kinds}"


def describe(result: CampaignResult, *, logs: bool = True) -> str:
    """Return the violations, each with its journal, and the figures."""
    lines: list[str] = []
    for violation, log in zip(result.violations, result.logs, strict=True):
        lines.append(f"VIOLATION {violation.kind} {violation.node} at {stamp(violation.at_s)}: {violation.what}")
        lines += (f"    {line}" for line in (log if logs else ()))
        lines.append(f"  again: {again(result.plan)}")
    return "\n".join([*lines, *figures(result)])


def figures(result: CampaignResult) -> Iterable[str]:
    """Return the figures of a campaign, as lines."""
    kinds = Counter(each.kind for each in result.violations)
    yield f"seed {result.plan.seed}: {result.hours:.1f} hours of {result.plan.nodes} nodes in {result.took_s:.0f} s"
    yield f"{result.offs} power-offs, {result.boots} boots, {result.pods} pods"
    for what, found in (
        ("past the taint after the last look, ended in order", result.races),
        ("past the taint after the last look, without shutdownGracePeriod", result.unended),
        ("without the taint, which a person removed after the last look", result.untainted),
    ):
        latest = f", at most {max(found):.1f} s after the request" if found else ""
        yield f"bound {what}: {len(found)}{latest}"
    yield from (f"DEFECTS of the {name}: {number:.0f}" for name, number in result.defects.items())
    yield ", ".join(f"{kind} {kinds[kind]}" for kind in ("pod cut", "unknown off", "stuck", "quarantined"))
