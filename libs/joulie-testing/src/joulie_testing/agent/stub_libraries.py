"""Compiles the stub libraries of the vendors' GPU drivers, which work over the GPUs of `stub_gpus`."""

import importlib.util
import re
import subprocess
from pathlib import Path
from typing import Final

NVML: Final = "libnvidia-ml.so.1"
AMD_SMI: Final = "libamd_smi.so"
_OWN: Final = re.compile(r"^amdsmi_status_t (\w+)\(", re.MULTILINE)
_BOUND: Final = re.compile(r"= _libraries\['libamd_smi\.so'\]\.(\w+)")
_COMPILE_S: Final = 60


def compile_nvml(stubs: Path, folder: Path, *options: str) -> Path:
    """Compile NVML to a folder and return that.

    Args:
        stubs: directory of the sources, `libs/joulie-actuator/tests/stubs`.
        folder: directory of the library.
        options: of the compiler.

    Raises:
        subprocess.CalledProcessError: it does not compile.
    """
    return compile_stub(folder, NVML, stubs / "nvml/nvml.c", *options)


def compile_amdsmi(stubs: Path, folder: Path) -> Path:
    """Compile AMD SMI with every function that the package binds to a folder, and return that.

    Args:
        stubs: as of `compile_nvml`.
        folder: directory of the library.

    Raises:
        subprocess.CalledProcessError: it does not compile.
    """
    source = stubs / "amdsmi/amdsmi.c"
    return compile_stub(folder, AMD_SMI, source, _unsupported(source, folder))


def compile_stub(folder: Path, name: str, *arguments: str | Path) -> Path:
    """Compile a library to a folder and return that.

    Raises:
        subprocess.CalledProcessError: it does not compile.
    """
    command = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(folder / name)]
    subprocess.run([*command, *map(str, arguments)], check=True, timeout=_COMPILE_S)  # noqa: S603 - ours
    return folder


def _unsupported(source: Path, folder: Path) -> Path:
    """Write a function that answers NOT_SUPPORTED for each that the package binds and the source does not have."""
    package = importlib.util.find_spec("amdsmi")
    assert package is not None
    assert package.submodule_search_locations is not None
    wrapper = Path(package.submodule_search_locations[0], "amdsmi_wrapper.py").read_text(encoding="utf-8")
    bound = set(_BOUND.findall(wrapper))
    own = set(_OWN.findall(source.read_text(encoding="utf-8")))
    assert own < bound, "the stub has functions that the package does not call"
    rest = folder / "unsupported.c"
    rest.write_text("".join(f"unsigned {name}(void) {{ return 2; }}\n" for name in sorted(bound - own)))
    return rest
