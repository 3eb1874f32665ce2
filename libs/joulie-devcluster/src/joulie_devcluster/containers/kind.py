"""A cluster of kind that runs: its names, and what is done with it through the kind CLI.

The cluster is described by the files in the repository's directory `kind`, which kind reads itself. Limits: works in a
checkout only. Blocks.
"""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from joulie_devcluster.containers.engine import Engine
from joulie_devcluster.containers.images import ImageBuilder, image_digest, repository_root, save_image
from joulie_devcluster.errors import EngineError
from joulie_devcluster.host.progress import Reporter

#: Name of the cluster in `kind/cluster.yaml`.
CLUSTER: Final = "joulie"
CONTROL_PLANE: Final = f"{CLUSTER}-control-plane"
WORKERS: Final = (f"{CLUSTER}-worker", f"{CLUSTER}-worker2")

_WAIT: Final = "180s"
#: Images go to the workers: no pod of the services runs on the control plane, whose taint they do not tolerate.
_TO_WORKERS: Final = ("--name", CLUSTER, "--nodes", ",".join(WORKERS))
_OUTPUT_CHARS: Final = 6000
#: File in the control plane's node with the digests of the images that the workers have; it ends with the cluster.
_LOADED: Final = "/kind/joulie-images"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindCluster:
    """A cluster.

    Attributes:
        engine: the engine whose containers are the nodes.
        kind: the kind executable.
        kubeconfig: an administrator's credentials, with an address that this machine reaches; None is the user's own,
            to which kind adds the cluster.
        private: whether the engine is one of this package, which pulls no images.
    """

    engine: Engine
    kind: Path
    kubeconfig: Path | None = None
    private: bool = False

    def create(self, image: str) -> None:
        """Create the cluster of `kind/cluster.yaml` from a node image, and wait until its nodes are ready."""
        config = repository_root() / "kind" / "cluster.yaml"
        self.run_kind("create", "cluster", "--config", str(config), "--image", image, "--wait", _WAIT)

    def delete(self) -> None:
        """Delete the cluster, if there is one."""
        self.run_kind("delete", "cluster", "--name", CLUSTER)

    def load_images(self, services: Sequence[str], reporter: Reporter) -> None:
        """Build the images of services and load them into the workers; nothing where they have them.

        Raises:
            EngineError: a build or kind failed.
        """
        wanted = {f"{service} {image_digest(service)}" for service in services}
        if wanted <= set(self._loaded()):
            return
        if self.private:
            archives = [save_image(service, reporter) for service in services]
            reporter.begin("images into the nodes of kind")
            self.run_kind("load", "image-archive", *_TO_WORKERS, *map(str, archives))
        else:
            builder = ImageBuilder(self.engine, reporter)
            names = [builder.build(service) for service in services]
            reporter.begin("images into the nodes of kind")
            self.run_kind("load", "docker-image", *_TO_WORKERS, *names)
        others = [line for line in self._loaded() if line.split()[0] not in services]
        text = "\n".join([*others, *sorted(wanted)])
        self.execute(CONTROL_PLANE, "sh", "-c", f'echo "$1" > {_LOADED}', "sh", text)
        reporter.finish()

    def execute(self, node: str, *command: str) -> str:
        """Run a command in a node and return its output; EngineError if it fails."""
        return self.engine.run("exec", node, *command)

    def run_kind(self, *arguments: str) -> str:
        """Run kind and return its output; EngineError with its output if it fails."""
        environment = {**os.environ, **self.engine.environment, "KIND_EXPERIMENTAL_PROVIDER": "docker"}
        if self.kubeconfig is not None:
            environment["KUBECONFIG"] = str(self.kubeconfig)
        environment["PATH"] = f"{self.engine.client.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        done = subprocess.run(  # noqa: S603 - a built binary
            [str(self.kind), *arguments],
            # Paths in cluster.yaml are relative to the working directory.
            cwd=repository_root(),
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode != 0:
            output = (done.stdout + done.stderr)[-_OUTPUT_CHARS:]
            raise EngineError(f"kind {' '.join(arguments[:2])} failed with status {done.returncode}:\n{output}")
        return done.stdout

    def _loaded(self) -> list[str]:
        """Return the lines of the file in the node, none where it does not exist."""
        return self.execute(CONTROL_PLANE, "sh", "-c", f"[ ! -e {_LOADED} ] || cat {_LOADED}").splitlines()
