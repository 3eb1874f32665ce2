"""`kubectl joulie` as a test runs it."""

import asyncio
import io
import json
import os
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joulie_cli.__main__ import perform
from joulie_cli.arguments import make_parser


@dataclass(frozen=True)
class Plugin:
    """Runs verbs in this process, and returns what they print."""

    kubeconfig: Path

    async def run(self, *arguments: str, code: int = 0) -> str:
        written = io.StringIO()
        options = make_parser().parse_args([*arguments, "--kubeconfig", str(self.kubeconfig)])
        with redirect_stdout(written), redirect_stderr(written):
            found = await perform(options)
        text = written.getvalue()
        assert found == code, (arguments, found, text)
        print(f"$ kubectl joulie {' '.join(arguments)}\n{text}")
        return text

    async def run_by_kubectl(self, *arguments: str) -> str:
        """Run a verb through kubectl where there is one, else as the program that kubectl would run."""
        programs = Path(sys.executable).parent
        kubectl = shutil.which("kubectl")
        command = [kubectl, "joulie"] if kubectl else [str(programs / "kubectl-joulie")]
        env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "KUBECONFIG": str(self.kubeconfig)}
        process = await asyncio.create_subprocess_exec(
            *command, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=env
        )
        out, _ = await process.communicate()
        assert process.returncode == 0, out.decode()
        return out.decode()

    async def data(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await self.run(*arguments, "-o", "json", code=code))
        return found
