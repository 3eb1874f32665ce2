"""A kind cluster for Joulie on the user's container engine: `just kind-up`, `kind-load` and `kind-down`.

The cluster is described by the files in the repository's directory `kind`, which kind reads itself; this module chooses
the node image and loads the services' images. Limits: works in a checkout only; the engine must be able to pull images,
since nodes are containers of `kindest/node`. Blocks for minutes.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

from joulie_devcluster.binaries import lookup
from joulie_devcluster.binaries.modules import Binary, kubernetes_minors
from joulie_devcluster.containers.engine import Engine, user_engine
from joulie_devcluster.containers.images import SERVICES, ImageBuilder, repository_root
from joulie_devcluster.errors import DevClusterError, EngineError
from joulie_devcluster.host.progress import terminal_reporter

#: Name of the cluster in `kind/cluster.yaml`.
CLUSTER: Final = "joulie"

#: Node image of each minor release of Kubernetes. Source: the notes of the pinned release of kind.
NODE_IMAGES: Final[Mapping[str, str]] = {
    "1.37": "kindest/node:v1.37.0@sha256:a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5",
    "1.36": "kindest/node:v1.36.4@sha256:099e049362a1526b2db71494e1947aae99bd16290d7c895f2b7ea312e3cbfaed",
    "1.35": "kindest/node:v1.35.8@sha256:07b2536e30b803ed61d1677a79df6115f798ce64c80f9e22f6ed45afd09323c0",
    "1.34": "kindest/node:v1.34.11@sha256:44e222ee2132dab25ff87301682f89eb82c7880ea3a1bf543bfe9708fd08d67d",
}

_WAIT: Final = "180s"


def up(kubernetes: str | None = None) -> None:
    """Create the cluster and wait until its nodes are ready. kind writes its address to the user's kubeconfig.

    Args:
        kubernetes: minor release of Kubernetes; None is `JOULIE_KUBERNETES`, or the default without it.

    Raises:
        DevClusterError: no engine responds, kind is missing and cannot be built, or it failed.
    """
    image = NODE_IMAGES[lookup.selected_kubernetes(kubernetes)]
    config = repository_root() / "kind" / "cluster.yaml"
    _kind(user_engine(), "create", "cluster", "--config", str(config), "--image", image, "--wait", _WAIT)


def load() -> None:
    """Build the images of the services and load them into the nodes.

    Raises:
        DevClusterError: no engine responds, or a build or kind failed.
    """
    engine = user_engine()
    with terminal_reporter() as reporter:
        builder = ImageBuilder(engine, reporter)
        names = [builder.build(service) for service in SERVICES]
    _kind(engine, "load", "docker-image", "--name", CLUSTER, *names)


def down() -> None:
    """Delete the cluster, if there is one.

    Raises:
        DevClusterError: no engine responds, or kind failed.
    """
    _kind(user_engine(), "delete", "cluster", "--name", CLUSTER)


def _kind(engine: Engine, *arguments: str) -> None:
    with terminal_reporter() as reporter:
        kind = lookup.ensure((Binary.KIND,), reporter=reporter)[Binary.KIND]
    done = subprocess.run(  # noqa: S603 - a fixed command
        [str(kind), *arguments],
        # Paths in cluster.yaml are relative to the working directory.
        cwd=repository_root(),
        env={**os.environ, **engine.environment, "KIND_EXPERIMENTAL_PROVIDER": "docker"},
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode != 0:
        raise EngineError(f"kind {' '.join(arguments[:2])} failed with status {done.returncode}: see its output above")


def main(argv: list[str] | None = None) -> int:
    """Create the kind cluster for Joulie, load the services' images into it, or delete it."""
    parser = argparse.ArgumentParser(prog="python -m joulie_devcluster.containers.kind", description=main.__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    create = commands.add_parser("up", help="create the cluster")
    create.add_argument("--kubernetes", choices=kubernetes_minors(), metavar="MINOR", help="one of %(choices)s")
    create.set_defaults(run=lambda options: up(options.kubernetes))
    commands.add_parser("load", help="build images and load them").set_defaults(run=lambda _options: load())
    commands.add_parser("down", help="delete the cluster").set_defaults(run=lambda _options: down())
    options = parser.parse_args(argv)
    try:
        options.run(options)
    except DevClusterError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
