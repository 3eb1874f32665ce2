"""Writes the Python modules and their types of the `.proto` files."""

import sys
import tempfile
from pathlib import Path
from typing import Final

import grpc_tools
from grpc_tools import protoc
from tools.generated import ROOT, finish

#: Paths in the generated descriptors are relative to these.
_SOURCES: Final = (*(ROOT / "services" / service / "src" for service in ("agent", "containers")), ROOT / "tests")
_INCLUDES: Final = Path(grpc_tools.__path__[0]) / "_proto"


def main() -> int:
    """Generate, or compare with `--check`; return the exit code."""
    return max(map(_generate, _SOURCES))


def _generate(source: Path) -> int:
    protos = sorted(source.glob("**/*.proto"))
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory)
        code: int = protoc.main(
            ["protoc", f"-I{source}", f"-I{_INCLUDES}", f"--python_out={out}", f"--pyi_out={out}", *map(str, protos)]
        )
        if code:
            return code
        generated = sorted(path for path in out.rglob("*") if path.is_file())
        return max(
            finish(source / path.relative_to(out), path.read_text(encoding="utf-8"), "just protos")
            for path in generated
        )


if __name__ == "__main__":
    sys.exit(main())
