"""The files by which amdgpu tells the partitions of its GPUs: KFD's topology, and platform devices of partitions.

Source: as of `joulie_actuator.hardware.gpu.kfd`.
"""

from dataclasses import dataclass
from pathlib import Path

#: Of a MI300X in the mode DPX.
_NODE_FILE = "cpu_cores_count 0\nvendor_id 4098\n{}num_xcc 4\nmax_engine_clk_ccompute 3700\n"


@dataclass(frozen=True, slots=True)
class KfdTree:
    """A directory that is, or has a part of, a machine's /sys."""

    root: Path

    def node(self, number: int, **properties: int | str) -> None:
        """Add a node to KFD's topology, with these properties beside those that nothing depends on."""
        directory = self.root / f"class/kfd/kfd/topology/nodes/{number}"
        directory.mkdir(parents=True, exist_ok=True)
        lines = "".join(f"{name} {value}\n" for name, value in properties.items())
        (directory / "properties").write_text(_NODE_FILE.format(lines))

    def partition(self, number: int, *renders: int) -> None:
        """Add the platform device of a partition beyond the first of a GPU, with these render nodes."""
        for render in renders:
            for name in (f"renderD{render}", f"card{render - 127}"):
                (self.root / f"devices/platform/amdgpu_xcp_{number}/drm/{name}").mkdir(parents=True)
