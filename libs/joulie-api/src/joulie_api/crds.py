"""Writes the CustomResourceDefinitions that the models generate, or compares a folder with them.

    python -m joulie_api.crds DIRECTORY [--check]

Promises one YAML file for each kind, the same bytes every time, and with `--check` an exit code of 1 when a file is
missing, differs or is left over. Files of other names than `*.yaml` are not looked at.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from joulie_core.kinds import crds

_HEADER = "# Generated from the models in joulie_core.kinds by `python -m joulie_api.crds`; edit those.\n"


def render(manifest: Mapping[str, Any]) -> str:
    """One manifest as YAML, its keys in the manifest's order."""
    return _HEADER + yaml.dump(manifest, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


def write(directory: Path, manifests: Mapping[str, Mapping[str, Any]]) -> list[Path]:
    """Write every manifest and remove YAML files that belong to none; returns the paths that changed."""
    directory.mkdir(parents=True, exist_ok=True)
    changed = [directory / name for name in differences(directory, manifests)]
    for path in changed:
        if path.name in manifests:
            path.write_text(render(manifests[path.name]), encoding="utf-8")
        else:
            path.unlink()
    return changed


def differences(directory: Path, manifests: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Names of files that are missing, different or left over."""
    present = {path.name: path.read_text(encoding="utf-8") for path in directory.glob("*.yaml")}
    wanted = {name: render(manifest) for name, manifest in manifests.items()}
    return sorted(name for name in present.keys() | wanted.keys() if present.get(name) != wanted.get(name))


class _Dumper(yaml.SafeDumper):
    """Writes shared values out each time and indents lists, as charts are usually laid out."""

    def ignore_aliases(self, data: Any) -> bool:
        """Always: an anchor in a CRD confuses its readers."""
        del data
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: FBT001, FBT002 - yaml's
        """Indent the items of a list below their key."""
        del indentless
        super().increase_indent(flow, indentless=False)


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m joulie_api.crds", description="Write Joulie's CRD manifests.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the folder is not up to date")
    options = parser.parse_args(argv)
    manifests = crds.manifests()
    if options.check:
        stale = differences(options.directory, manifests)
        if stale:
            sys.stderr.write(f"not up to date in {options.directory}: {', '.join(stale)}\n")
        return 1 if stale else 0
    for path in write(options.directory, manifests):
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
