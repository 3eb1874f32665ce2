"""Writes the CustomResourceDefinitions of the models into a directory, or checks the directory.

    python -m tools.crds DIRECTORY [--check]

Writes one YAML file for each kind and removes YAML files of other kinds. With `--check` the exit code is 1 if a file is
missing, different or left over. Files other than `*.yaml` are ignored.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from joulie_core.kinds import crds

_HEADER = "# Generated from the models in joulie_core.kinds by `just crds`; edit those.\n"


def render(manifest: Mapping[str, Any]) -> str:
    """Return one manifest as YAML, with its keys in order."""
    return _HEADER + yaml.dump(manifest, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


def write(directory: Path, manifests: Mapping[str, Mapping[str, Any]]) -> list[Path]:
    """Write every manifest, remove other YAML files, and return the paths that changed."""
    directory.mkdir(parents=True, exist_ok=True)
    changed = [directory / name for name in differences(directory, manifests)]
    for path in changed:
        if path.name in manifests:
            path.write_text(render(manifests[path.name]), encoding="utf-8")
        else:
            path.unlink()
    return changed


def differences(directory: Path, manifests: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the names of files that are missing, different or left over."""
    present = {path.name: path.read_text(encoding="utf-8") for path in directory.glob("*.yaml")}
    wanted = {name: render(manifest) for name, manifest in manifests.items()}
    return sorted(name for name in present.keys() | wanted.keys() if present.get(name) != wanted.get(name))


class _Dumper(yaml.SafeDumper):
    """Writes no anchors and indents lists, as is usual in charts."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write no anchors: they make a CRD hard to read."""
        del data
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: FBT001, FBT002 - yaml's
        """Indent the items of a list below their key."""
        del indentless
        super().increase_indent(flow, indentless=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.crds", description="Write Joulie's CRD manifests.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the directory is out of date")
    options = parser.parse_args(argv)
    manifests = crds.manifests()
    if options.check:
        stale = differences(options.directory, manifests)
        if stale:
            sys.stderr.write(f"{options.directory} is out of date, run `just crds`: {', '.join(stale)}\n")
        return 1 if stale else 0
    for path in write(options.directory, manifests):
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
