"""Runs a module's tests once as it is, then per mutant those tests that reach the changed statement.

Every run is a process forked from one that has imported pytest and all packages that do not depend on the module. The
mutant replaces the module when it is imported; nothing is written. Tests that run the module in another process do not
count as reaching it.
"""

import contextlib
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import json
import math
import os
import resource
import shutil
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final, NoReturn

import coverage
import hypothesis
import pytest
from mutation import Mutant

_PYTEST: Final = (
    *("-q", "-x", "--assert=plain", "-p", "no:cacheprovider", "-m", "not e2e and not docker and not soak and not long"),
    "--timeout=0",  # The limits are those below: one of pytest's counts the time in which other processes had the CPU.
)
#: A mutant may use this many times the seconds that its tests took, and these in addition, of CPU time before it counts
#: as one that does not end.
_PATIENCE: Final = 4.0
_GRACE_S: Final = 8.0
#: The same of time that passes. Whether a mutant never ends or waits for the CPU is not known, so that it is not killed
#: by its tests then.
_WAITING_PATIENCE: Final = 20.0
_WAITING_GRACE_S: Final = 60.0
#: A mutant that allocates without end fails instead of taking the machine's memory.
_MEMORY_BYTES: Final = 8 << 30


class Result(StrEnum):
    """Result of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    #: It used too much CPU time.
    TIMEOUT = "timeout"
    #: It was ended without a result.
    INVALID = "invalid"


@dataclass(frozen=True)
class Baseline:
    """Run of the tests on the module as it is.

    Attributes:
        seconds: duration of each test, by its id.
        tests: the tests that reach each line of the module.
        imported: the file of each module that was loaded at the end, by its name, in the order of their import.

    """

    seconds: Mapping[str, float]
    tests: Mapping[int, frozenset[str]]
    imported: Mapping[str, str]

    def covering(self, mutant: Mutant) -> list[str]:
        """Return the tests to run for a mutant, the fastest first; none where no test reaches it.

        What runs at import may matter to any test: those of the files that reach the module are taken, and all where
        there is none.
        """
        if mutant.function_lines:
            return self.by_time(self._reaching(mutant.statement_lines) or self._reaching(mutant.function_lines))
        reaching = self._reaching(self.tests)
        files = {_file_of(test) for test in reaching}
        others = {test for test in self.seconds if not files or _file_of(test) in files} - reaching
        return self.by_time(reaching) + self.by_time(others)

    def by_time(self, tests: Iterable[str]) -> list[str]:
        """Return tests, the fastest first."""
        return sorted(tests, key=lambda test: (self.seconds[test], test))

    def _reaching(self, lines: Iterable[int]) -> frozenset[str]:
        return frozenset[str]().union(*(self.tests.get(line, ()) for line in lines))


def _file_of(test: str) -> str:
    return test.partition("::")[0]


class BaselineError(Exception):
    """The tests fail, or there are none, on the module as it is; carries what pytest printed."""


class _Recorder:
    """Records durations, and the test that runs as the context of coverage."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self.measured = measured
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        self.measured.switch_context(item.nodeid)
        began = time.perf_counter()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.perf_counter() - began
            self.measured.switch_context("")


class _Selection:
    """Keeps the given tests, in the given order; all where one is missing because the mutant changed its id."""

    def __init__(self, tests: Sequence[str]) -> None:
        self.tests = tests

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        by_id = {item.nodeid: item for item in items}
        if all(test in by_id for test in self.tests):
            items[:] = [by_id[test] for test in self.tests]


class _Replacing(importlib.abc.MetaPathFinder):
    """Loads one module from the given text."""

    def __init__(self, module: str, path: Path, source: str) -> None:
        self.module, self.path, self.source = module, path, source

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.module:
            return None
        loader = _TextLoader(fullname, str(self.path), self.source)
        return importlib.util.spec_from_file_location(fullname, self.path, loader=loader)


class _TextLoader(importlib.machinery.SourceFileLoader):
    def __init__(self, fullname: str, path: str, source: str) -> None:
        super().__init__(fullname, path)
        self.source = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.source, self.get_filename(fullname), "exec", dont_inherit=True)


def bound_hypothesis() -> None:
    """Make property tests repeatable and short: fixed seeds, few examples, no search for a smaller failure."""
    hypothesis.settings.register_profile(
        "mutants",
        derandomize=True,
        database=None,
        deadline=None,
        max_examples=25,
        phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    hypothesis.settings.load_profile("mutants")


def run_baseline(path: Path, tests: Sequence[str], work: Path) -> Baseline:
    """Run the tests on the module as it is.

    Raises:
        BaselineError: they do not all pass.

    """
    answer, output = work / "baseline.json", work / "baseline.txt"
    child = os.fork()
    if child == 0:
        _baseline_process(path, tests, answer, output)
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise BaselineError(output.read_text())
    answered = json.loads(answer.read_text())
    return Baseline(
        seconds=answered["seconds"],
        tests={int(line): frozenset(found) for line, found in answered["tests"].items()},
        imported=answered["imported"],
    )


def _baseline_process(path: Path, tests: Sequence[str], answer: Path, output: Path) -> NoReturn:
    _print_to(output)
    measured = coverage.Coverage(data_file=None, include=[str(path)], config_file=False)
    recorder = _Recorder(measured)
    measured.start()
    status = int(pytest.main([*_PYTEST, "--basetemp", str(answer.parent / "t"), *tests], plugins=[recorder]))
    measured.stop()
    by_line: defaultdict[int, list[str]] = defaultdict(list)
    for line, contexts in measured.get_data().contexts_by_lineno(str(path)).items():
        by_line[line] += [context for context in contexts if context]
    imported = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    imported = {name: file for name, file in imported.items() if isinstance(file, str)}
    answer.write_text(json.dumps({"seconds": recorder.seconds, "tests": by_line, "imported": imported}))
    os._exit(status)


def preload(names: Iterable[str]) -> None:
    """Import what every run needs, so that each fork has it.

    The order matters: `_asyncio` before `asyncio` leaves no task that is the current one.
    """
    for name in names:
        if name not in sys.modules:
            # Names in sys.modules that no import finds (aliases, generated modules) are left to the runs.
            with contextlib.suppress(ImportError, AttributeError):
                importlib.import_module(name)
    gc.collect()
    gc.freeze()


def run_control(module: str, path: Path, tests: Sequence[str], work: Path) -> None:
    """Run the tests on the module as it is, in the way of a mutant.

    Raises:
        BaselineError: they do not all pass, so that they would seem to notice every mutant.

    """
    output = work / "control.txt"
    child = os.fork()
    if child == 0:
        _mutant_process(_Replacing(module, path, path.read_text()), tests, work / "control", output)
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise BaselineError(output.read_text())


def try_mutants(
    module: str,
    path: Path,
    mutants: Sequence[tuple[Mutant, Sequence[str]]],
    *,
    seconds: Mapping[str, float],
    work: Path,
    jobs: int,
) -> Iterator[tuple[Mutant, Result]]:
    """Run each mutant's tests, several mutants at a time, and yield each result as it comes."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    assert module not in sys.modules, f"{module} is imported already, so no mutant would be"
    waiting = list(reversed(mutants))
    running: dict[int, tuple[Mutant, float, Path]] = {}
    count = 0
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                mutant, tests = waiting.pop()
                count += 1
                base = work / str(count)
                tests_s = sum(seconds[test] for test in tests)
                cpu_s = math.ceil(_GRACE_S + _PATIENCE * tests_s)
                child = os.fork()
                if child == 0:
                    _mutant_process(_Replacing(module, path, mutant.source), tests, base, Path(os.devnull), cpu_s)
                running[child] = mutant, time.monotonic() + _WAITING_GRACE_S + _WAITING_PATIENCE * tests_s, base
            signal.sigtimedwait({signal.SIGCHLD}, 0.5)
            for child, (mutant, deadline, base) in list(running.items()):
                ended, status = os.waitpid(child, os.WNOHANG)
                if not ended and time.monotonic() < deadline:
                    continue
                _end(child, reaped=bool(ended))
                del running[child]
                shutil.rmtree(base, ignore_errors=True)
                yield mutant, _result(ended=bool(ended), status=status)
    finally:
        for child in running:
            _end(child, reaped=False)


def _result(*, ended: bool, status: int) -> Result:
    if not ended:
        return Result.INVALID
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        return Result.TIMEOUT
    # The same tests passed without the mutant, so any other status (failed, import error, killed) is its doing.
    return Result.SURVIVED if status == 0 else Result.KILLED


def _end(child: int, *, reaped: bool) -> None:
    """Kill a run with all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if not reaped:
        with contextlib.suppress(ProcessLookupError):  # it had no group yet
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _mutant_process(
    replacing: _Replacing, tests: Sequence[str], base: Path, output: Path, cpu_s: int = resource.RLIM_INFINITY
) -> NoReturn:
    status = 1
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, resource.RLIM_INFINITY))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        _print_to(output)
        sys.meta_path.insert(0, replacing)
        files = sorted({_file_of(test) for test in tests})
        status = int(pytest.main([*_PYTEST, "--basetemp", str(base), *files], plugins=[_Selection(tests)]))
    finally:
        os._exit(status)


def _print_to(path: Path) -> None:
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(target, 1)
    os.dup2(target, 2)
