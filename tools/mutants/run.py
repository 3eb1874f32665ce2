"""Mutation testing of one module: which small changes of it do its member's tests not notice?

    just mutants joulie_core.transition                          the tests of joulie-core, or those of the list
    just mutants joulie_agent.control services/agent/tests/test_control.py   only these, faster
    just mutants joulie_core.demand --function workload_class    only mutants of one function
    just mutants 'joulie_outofband.*'                            every module with such a name, one after another
    just mutants joulie_core.demand TESTS --record               also note the share in the list, docs/mutation.md
    just mutants --changed --within 120                          those of the list that were changed since, as in CI

The working tree is copied to a temporary directory first and can be edited meanwhile. Each mutant runs the tests that
reach the changed statement, the fastest first, until one fails; a mutant that uses too much CPU time counts as killed.
One that only waits is ended after a minute or more and does not count as killed, since other processes may have
kept it from the CPU. Before, the tests have to pass twice without a mutant, the second time in the way that mutants are
tried. Tests slower than `--slowest` are left out, so the share killed is a lower bound. Mutants that no test can tell
from the original are declared in equivalent.toml beside this file, and do not count. Exit code 1 below 90 % killed, or
where a declared mutant is killed or no longer exists.
"""

import argparse
import ast
import datetime as dt
import fnmatch
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import shares
import trials
from modules import Target, targets
from mutation import Mutant, mutants_of

ROOT: Final = Path(__file__).resolve().parents[2]
EQUIVALENT: Final = Path(__file__).with_name("equivalent.toml")
_TELL_EVERY_S: Final = 10.0


@dataclass(frozen=True)
class Equivalent:
    """A mutant that behaves like the original; fields as in equivalent.toml."""

    module: str
    function: str
    line: str
    becomes: str
    reason: str

    def names(self, mutant: Mutant) -> bool:
        """Whether it is this mutant."""
        return (self.function, self.line, self.becomes) == (mutant.function, mutant.removed, mutant.added)


def choose(module: str, known: dict[str, Target]) -> Target:
    """Return the target of that name.

    Raises:
        SystemExit: there is none; says what can be given instead.

    """
    if module in known:
        return known[module]
    package = module
    while package and package not in known:
        package = package.rpartition(".")[0]
    near = sorted(name for name in known if name.startswith(f"{package}." if package else ""))
    sys.exit(f"no module {module}; {f'in {package}' if package else 'modules'}:\n  " + "\n  ".join(near))


def declared(module: str, file: Path) -> list[Equivalent]:
    """Return the declared equivalents of a module."""
    entries = tomllib.loads(file.read_text()).get("equivalent", []) if file.exists() else []
    return [entry for entry in (Equivalent(**fields) for fields in entries) if entry.module == module]


def copy_tree(root: Path, to: Path) -> None:
    """Copy what git tracks, or would track, as it is now."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (root / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, to / name)


def enter(copy: Path) -> None:
    """Import the workspace from the copy, in this process and in all that it starts."""
    sources = [str(path) for path in sorted(copy.glob("*/*/src"))]
    sys.path[:0] = sources
    os.environ["PYTHONPATH"] = os.pathsep.join(sources)
    os.chdir(copy)


def independent(imported: Mapping[str, str], target: Target, copy: Path) -> Iterator[str]:
    """Yield the imported modules that do not import the target, directly or not; of the workspace, those in `src`."""
    known = targets(copy)
    needs = {name: _imports((copy / each.path).read_text()) | set(_packages(name)) for name, each in known.items()}
    importers = {target.module}
    while grown := {name for name, needed in needs.items() if needed & importers} - importers:
        importers |= grown
    for name, file in imported.items():
        if name not in importers and (name in known or not Path(file).is_relative_to(copy)):
            yield name


def _packages(module: str) -> Iterator[str]:
    """Yield the packages around a module, which are imported before it."""
    while module := module.rpartition(".")[0]:
        yield module


def _imports(source: str) -> set[str]:
    """Return all names that a module may import, wherever in it; those of no module do no harm."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found |= {each.name for each in names}
            case ast.ImportFrom(module=str(module), names=names):
                found |= {module} | {f"{module}.{each.name}" for each in names}
            case _:
                pass
    return found


def arguments() -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(prog="just mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "module", nargs="?", help="dotted name, for example joulie_core.transition, or a pattern of names"
    )
    parser.add_argument(
        "tests", nargs="*", help="test files or directories; default: those of the list, or all of the module's member"
    )
    parser.add_argument("--function", help="only mutants of this function or class, for example NodeState.profile")
    parser.add_argument("--slowest", type=float, default=5.0, metavar="S", help="leave out slower tests (default 5)")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (default 2)")
    parser.add_argument("--record", action="store_true", help="note the share in the list, whether it is enough or not")
    parser.add_argument(
        "--changed", action="store_true", help="the modules of the list that changed since they were run"
    )
    parser.add_argument(
        "--within", type=float, metavar="S", help="with --changed: leave out, by name, what would take longer in all"
    )
    asked = parser.parse_args()
    if asked.changed == bool(asked.module):
        parser.error("give either a module or --changed")
    if asked.record and asked.function:
        parser.error("--record needs all mutants of the module: leave out --function")
    return asked


def main() -> int:
    """Run one module in this process, or several in one process each, and return the exit code."""
    asked = arguments()
    known = targets(ROOT)
    listed = shares.read()
    if asked.changed:
        options = ["--jobs", str(asked.jobs), *(["--record"] if asked.record else [])]
        return _each(_changed(known, listed, within_s=asked.within), options)
    if "*" in asked.module:
        names = sorted(fnmatch.filter(known, asked.module))
        if not names:
            choose(asked.module, known)  # ends with the names that exist
        return _each(names, sys.argv[2:])
    if asked.module in listed and not asked.tests:
        asked.tests = list(listed[asked.module].tests)
    return _run(asked, choose(asked.module, known))


def _changed(known: Mapping[str, Target], listed: Mapping[str, shares.Share], *, within_s: float | None) -> list[str]:
    """Return the modules of the list whose files differ from those that were run, the fastest first."""
    paths = {name: target.path for name, target in known.items()}
    changed = sorted(shares.changed(ROOT, paths, listed), key=lambda name: listed[name].seconds)
    print(f"{len(changed)} of {len(listed)} modules of the list changed since their mutants were tried")
    chosen, total_s = [], 0.0
    for name in changed:
        total_s += listed[name].seconds
        if within_s is None or total_s <= within_s:
            chosen.append(name)
        else:
            print(f"left out, since it takes {listed[name].seconds} s: just mutants {name}")
    return chosen


def _each(modules: Sequence[str], options: Sequence[str]) -> int:
    """Run each module in a process of its own, since a process can import only one copy of the workspace."""
    failed = [
        name for name in modules if subprocess.run([sys.executable, __file__, name, *options], check=False).returncode
    ]
    for name in failed:
        print(f"not enough, or not run: {name}")
    return int(bool(failed))


def _run(asked: argparse.Namespace, target: Target) -> int:
    work = Path(tempfile.mkdtemp(prefix="mutants-"))
    try:
        copy = work / "copy"
        copy_tree(ROOT, copy)
        enter(copy)
        return _judge(asked, target, copy, work)
    except trials.BaselineError as error:
        print(error)
        print(f"the tests of {target.module} have to pass before its mutants can be tried")
        return 1
    finally:
        os.chdir(ROOT)
        shutil.rmtree(work, ignore_errors=True)


def _judge(asked: argparse.Namespace, target: Target, copy: Path, work: Path) -> int:
    began = time.monotonic()
    trials.bound_hypothesis()
    tests = asked.tests or [str(target.member / "tests")]
    print(f"{target.module}: running {' '.join(tests)} without a mutant", flush=True)
    baseline = trials.run_baseline(copy / target.path, tests, work)
    mutants = mutants_of((copy / target.path).read_text())
    if asked.function:
        mutants = [mutant for mutant in mutants if f"{mutant.function}.".startswith(f"{asked.function}.")]
    slow = {test for test, seconds in baseline.seconds.items() if seconds > asked.slowest}
    plan = [(mutant, [test for test in baseline.covering(mutant) if test not in slow]) for mutant in mutants]
    print(
        f"{len(mutants)} mutants, {len(baseline.seconds)} tests, of which {len(slow)} are left out as slow", flush=True
    )
    trials.preload(independent(baseline.imported, target, copy))
    if control := baseline.by_time(set(baseline.seconds) - slow):
        trials.run_control(target.module, copy / target.path, control, work)
    tally = Tally(target, len(mutants), declared(target.module, EQUIVALENT))
    for mutant, chosen in plan:
        if not chosen:
            tally.add(mutant, trials.Result.SURVIVED, " (no test reaches it)")
    to_try = [(mutant, chosen) for mutant, chosen in plan if chosen]
    for mutant, result in trials.try_mutants(
        target.module, copy / target.path, to_try, seconds=baseline.seconds, work=work, jobs=asked.jobs
    ):
        tally.add(mutant, result)
    if asked.record:
        share = shares.Share(
            tests=tuple(tests),
            digest=shares.digest_of(copy, target.path, tests),
            date=dt.datetime.now(tz=dt.UTC).date().isoformat(),
            mutants=len(mutants),
            killed=tally.killed,
            equivalent=tally.alike,
            seconds=round(time.monotonic() - began),
        )
        shares.record(target.module, share)
    return tally.close(whole=not asked.function)


class Tally:
    """Counts results and prints them: survivors and timeouts as they come, how far it is, and the summary."""

    def __init__(self, target: Target, total: int, equivalents: Sequence[Equivalent]) -> None:
        self._target, self._total, self._equivalents = target, total, equivalents
        self._counts = Counter[trials.Result]()
        self.alike = 0
        self._found: set[Equivalent] = set()
        self._told = time.monotonic()

    @property
    def killed(self) -> int:
        """Mutants that a test noticed, by failing or by using too much CPU time."""
        return self._counts[trials.Result.KILLED] + self._counts[trials.Result.TIMEOUT]

    def add(self, mutant: Mutant, result: trials.Result, note: str = "") -> None:
        """Count one more mutant."""
        self._counts[result] += 1
        entry = next((entry for entry in self._equivalents if entry.names(mutant)), None)
        if result is trials.Result.SURVIVED and entry is not None:
            self.alike += 1
            self._found.add(entry)
        elif result is not trials.Result.KILLED:
            where = f"{self._target.path}:{mutant.line} in {mutant.function or 'the module'}"
            print(f"\n{result}: {where}{note}\n{mutant.diff}\n")
        self._progress()

    def _progress(self) -> None:
        """Renew one line on a terminal; else print one every ten seconds."""
        done = self._counts.total()
        line = f"{done}/{self._total} " + ", ".join(f"{self._counts[kind]} {kind}" for kind in trials.Result)
        if sys.stdout.isatty():
            print(f"\r{line}", end="\n" if done == self._total else "", flush=True)
        elif time.monotonic() - self._told > _TELL_EVERY_S:
            self._told = time.monotonic()
            print(line, flush=True)

    def close(self, *, whole: bool) -> int:
        """Print the summary and return the exit code; `whole` where all mutants of the module were tried."""
        stale = [entry for entry in self._equivalents if whole and entry not in self._found]
        for entry in stale:
            print(f"\ndeclared equivalent, but killed or gone: {entry.function}: {entry.line!r} -> {entry.becomes!r}")
        survived = self._counts[trials.Result.SURVIVED] - self.alike
        timeouts, invalid = self._counts[trials.Result.TIMEOUT], self._counts[trials.Result.INVALID]
        killed = self.killed
        counted = killed + survived + invalid
        share_pct = 100.0 * killed / counted if counted else 100.0
        print(
            f"{self._target.module}: {self._total} mutants, {killed} killed (of these {timeouts} by timeout),"
            f" {survived} survived, {invalid} without a result, {self.alike} equivalent; {share_pct:.1f} % killed"
        )
        return int(share_pct < shares.ENOUGH_PCT or bool(stale))


if __name__ == "__main__":
    sys.exit(main())
