"""Runs commands of the documentation as people do: by a shell, in the root of the repository."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.chart import ROOT
from tests.doc_commands import documented_commands

from joulie_devcluster.binaries import lookup
from joulie_devcluster.binaries.modules import Binary

_PROGRAMS = ("helm", "kubectl", "kubectl-joulie", "curl")
_TIMEOUT_S = 240


@dataclass(frozen=True)
class Shell:
    """A shell; `names` are what stands for a name in the commands, `exit_codes` those that are not 0."""

    env: Mapping[str, str]
    names: Mapping[str, str]
    exit_codes: Mapping[str, int] = field(default_factory=dict)

    async def section(self, page: str, section: str) -> str:
        """Run all commands of a section; return what they print."""
        found = [each for each in documented_commands() if (each.page, each.section) == (page, section)]
        commands = [each for each in found if each.elsewhere is None and each.words[0] in _PROGRAMS]
        assert commands, (page, section)
        return "".join([await self.run(each.text) for each in commands])

    async def run(self, command: str) -> str:
        """Run a command; return what it prints."""
        for placeholder, name in self.names.items():
            command = command.replace(f" {placeholder}", f" {name}").replace(f"={placeholder}", f"={name}")
        done = await asyncio.to_thread(
            subprocess.run, command, shell=True, cwd=ROOT, env=self.env, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=_TIMEOUT_S, check=False,
        )  # fmt: skip
        print(f"$ {command}\n{done.stdout}")
        assert done.returncode == self.exit_codes.get(command, 0), (command, done.stdout)
        return done.stdout


def find_kubectl() -> Path:
    """Return kubectl, that of the machine or one that is built."""
    found = shutil.which("kubectl")
    return Path(found) if found else lookup.ensure((Binary.KUBECTL,))[Binary.KUBECTL]


def make_shell(
    home: Path,
    tools: Mapping[str, Path],
    kubeconfig: Path,
    *,
    names: Mapping[str, str],
    exit_codes: Mapping[str, int] | None = None,
) -> Shell:
    """Return a shell that finds these tools and the programs of this repository.

    Args:
        home: an empty folder.
        tools: programs by the name that commands call them.
        kubeconfig: of the cluster.
        names: what stands for a name in the commands.
        exit_codes: those that are not 0, by the whole command.
    """
    programs = home / "programs"
    programs.mkdir()
    for name, path in tools.items():
        (programs / name).symlink_to(path)
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {"PATH": path, "HOME": str(home), "KUBECONFIG": str(kubeconfig)}
    return Shell(env, names, exit_codes or {})
