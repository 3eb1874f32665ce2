"""The kind cluster of this checkout: `just kind-up`, `kind-load` and `kind-down`, and how others find it.

On a container engine of the user's that responds, nodes are containers of `kindest/node`. Without an engine, root gets
the same cluster on a private one, with a node image of this package, which needs no registry. Blocks for minutes.
"""

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from joulie_devcluster.binaries import lookup
from joulie_devcluster.binaries.modules import Binary, kubernetes_minors
from joulie_devcluster.containers.engine import Engine, user_engine
from joulie_devcluster.containers.images import SERVICES
from joulie_devcluster.containers.kind import CLUSTER, KindCluster
from joulie_devcluster.control_plane.pki import write_file
from joulie_devcluster.errors import DevClusterError, EngineError
from joulie_devcluster.host.progress import Reporter, terminal_reporter
from joulie_devcluster.kind_node import background
from joulie_devcluster.kind_node.engine import kind_obstacle, missing_packages

#: Node image of each minor release of Kubernetes. Source: the notes of the pinned release of kind.
NODE_IMAGES: Final[Mapping[str, str]] = {
    "1.37": "kindest/node:v1.37.0@sha256:a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5",
    "1.36": "kindest/node:v1.36.4@sha256:099e049362a1526b2db71494e1947aae99bd16290d7c895f2b7ea312e3cbfaed",
    "1.35": "kindest/node:v1.35.8@sha256:07b2536e30b803ed61d1677a79df6115f798ce64c80f9e22f6ed45afd09323c0",
    "1.34": "kindest/node:v1.34.11@sha256:44e222ee2132dab25ff87301682f89eb82c7880ea3a1bf543bfe9708fd08d67d",
}

_DESCRIPTION: Final = "A kind cluster for Joulie, made from the directory kind."
_EPILOG: Final = """\
getting started:
  just kind-up          on your container engine; without one, as root, on an engine of its own
  just kind-demo        40 simulated nodes join, and Joulie steers them
  just kind-load        after a change: build the images of the services, and load them into the nodes
  just kind-down
"""


def up(kubernetes: str | None, reporter: Reporter) -> str:
    """Create the cluster, wait until its nodes are ready, and return what reaches it with kubectl.

    Args:
        kubernetes: minor release of Kubernetes; None is `JOULIE_KUBERNETES`, or the default without it.
        reporter: receives the progress.

    Raises:
        DevClusterError: neither kind of engine can be used, kind is missing and cannot be built, or it failed.
    """
    minor = lookup.selected_kubernetes(kubernetes)
    engine = _engine()
    if engine is None:
        reporter.note("no container engine responds: the nodes run on one of their own, without a registry")
        cluster = background.start(background.home(), minor, reporter)
        return f"export KUBECONFIG={cluster.kubeconfig}"
    cluster = KindCluster(engine=engine, kind=_kind(reporter))
    reporter.begin("kind create cluster")
    cluster.create(NODE_IMAGES[minor])
    reporter.finish()
    return f"kubectl config use-context kind-{CLUSTER}"


def find(reporter: Reporter) -> KindCluster:
    """Return the cluster that `up` has made, with a kubeconfig.

    Raises:
        EngineError: there is none.
        DevClusterError: kind is missing and cannot be built, or it failed.
    """
    private = background.running(background.home())
    if private is not None:
        return private
    missing = "no kind cluster is running: create it with `just kind-up`"
    try:
        engine = user_engine()
    except EngineError as error:
        raise EngineError(f"{missing} ({error})") from error
    cluster = KindCluster(engine=engine, kind=_kind(reporter))
    if CLUSTER not in cluster.run_kind("get", "clusters").split():
        raise EngineError(missing)
    kubeconfig = background.home() / "kubeconfig"
    write_file(kubeconfig, cluster.run_kind("get", "kubeconfig", "--name", CLUSTER).encode())
    return KindCluster(engine=engine, kind=cluster.kind, kubeconfig=kubeconfig)


def down(reporter: Reporter) -> None:
    """Delete the cluster, if there is one.

    Raises:
        DevClusterError: no engine responds, or kind failed.
    """
    if not background.stop(background.home()):
        KindCluster(engine=user_engine(), kind=_kind(reporter)).delete()


def _engine() -> Engine | None:
    """Return the user's engine; None where there is none and this user can run a private one."""
    try:
        return user_engine()
    except EngineError as error:
        # A user who names an engine wants no other one.
        if os.environ.get("DOCKER_HOST"):
            raise
        obstacle = kind_obstacle() or missing_packages()
        if obstacle is not None:
            raise EngineError(f"{error}\nwithout a container engine: {obstacle}") from error
        return None


def _kind(reporter: Reporter) -> Path:
    return lookup.ensure((Binary.KIND,), reporter=reporter)[Binary.KIND]


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit status."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m joulie_devcluster.kind", description=_DESCRIPTION, epilog=_EPILOG, formatter_class=formatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    create = commands.add_parser("up", help="create the cluster")
    create.add_argument("--kubernetes", choices=kubernetes_minors(), metavar="MINOR", help="one of %(choices)s")
    commands.add_parser("load", help="build the images of the services, and load them into the nodes")
    commands.add_parser("down", help="delete the cluster")
    options = parser.parse_args(argv)
    try:
        with terminal_reporter() as reporter:
            answer = _run(options, reporter)
    except DevClusterError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    sys.stdout.write(answer)
    return 0


def _run(options: argparse.Namespace, reporter: Reporter) -> str:
    """Run a command and return what it prints."""
    if options.command == "up":
        return f"{up(options.kubernetes, reporter)}\n"
    if options.command == "load":
        find(reporter).load_images(SERVICES, reporter)
    else:
        down(reporter)
    return ""


if __name__ == "__main__":
    sys.exit(main())
