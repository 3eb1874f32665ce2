"""Parser of the command line: the options of each command, and the function that runs it.

Results are written to stdout, everything else to stderr. Exit status: 0 success, 1 error, 2 usage error, 3 no such
cluster, 130 interrupted.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from joulie_devcluster.binaries.lookup import KUBERNETES_VARIABLE
from joulie_devcluster.binaries.modules import DEFAULT_KUBERNETES, Binary, kubernetes_minors
from joulie_devcluster.cli import commands, up
from joulie_devcluster.cli.doctor import doctor
from joulie_devcluster.errors import DevClusterError
from joulie_devcluster.host.paths import state_home

_FAILED, _INTERRUPTED = 1, 130
_LAST_PORT = 65_535

_DESCRIPTION = """\
A real Kubernetes control plane (etcd, API server, scheduler, controller manager, and KWOK for simulated nodes) as
ordinary processes on loopback. Needs neither Docker nor root. Any number of clusters can run at the same time.
"""
_EPILOG = """\
getting started:
  joulie-devcluster doctor                      check the host; show what is missing and how to install it
  joulie-devcluster up --nodes 40 --detach      40 nodes with several CPU and GPU models, in the background
  export KUBECONFIG=$(joulie-devcluster kubeconfig)
  kubectl get nodes -L joulie.io/hw.cpu-model,joulie.io/hw.gpu-model
  joulie-devcluster down                        stop all processes, remove all files

The first start on a machine downloads the binaries and verifies their pinned checksums. Where the projects' servers
are not reachable it builds them from pinned Go modules instead, which takes 10 to 20 minutes on 2 cores.
They are cached in $XDG_CACHE_HOME/joulie/devcluster (~/.cache), so that later starts take seconds.
To download from a mirror, set JOULIE_RELEASE_MIRROR to its https:// address; below it, files are at host/path of the
projects' addresses. To use other binaries, set KUBEBUILDER_ASSETS to a directory that contains them.
"""
_UP_EPILOG = """\
node classes in the file of --config (name and cpu are required):
  classes:
    - name: h100                    # nodes h100-0, h100-1, ...
      count: 4
      cpu: {model: Intel-Xeon-Platinum-8480, sockets: 2, cores: 112}    # physical cores of all sockets
      gpu: {model: NVIDIA-H100-80GB-HBM3, count: 8, resource: nvidia.com/gpu}
      memory: 2Ti
      pods: 110
      racks: [r1, r2]               # assigned round robin; coolingZones likewise
      managed: true                 # label joulie.io/managed
      labels: {team: ml}

kube-scheduler calls an extender at the port that `status` shows. It ignores the extender while no process listens
there.
"""


def run(arguments: Sequence[str]) -> int:
    """Parse and run one command and return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.handler(options)
    except DevClusterError as error:
        sys.stderr.write(f"joulie-devcluster: {error}\n")
        return _FAILED
    except KeyboardInterrupt:
        return _INTERRUPTED
    return status


def _up(options: argparse.Namespace) -> int:
    request = up.UpRequest(
        name=options.name,
        directory=_directory(options),
        nodes=options.nodes,
        node_file=options.config,
        binaries=options.binaries,
        kubernetes=options.kubernetes,
        extender=not options.no_extender,
        extender_port=options.extender_port,
        real_node=options.real_node,
    )
    return up.up_detached(request) if options.detach else up.up(request)


def _logs(options: argparse.Namespace) -> int:
    return commands.logs(_directory(options), options.process, lines=options.lines, follow=options.follow)


def _build(options: argparse.Namespace) -> int:
    return commands.build(
        options.binary, options.binaries, kubernetes=options.kubernetes, from_source=options.from_source
    )


def _directory(options: argparse.Namespace) -> Path:
    directory: Path | None = options.dir
    return directory if directory is not None else state_home() / options.name


def _parser() -> argparse.ArgumentParser:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="joulie-devcluster", description=_DESCRIPTION, epilog=_EPILOG, formatter_class=formatter
    )
    parser.add_argument("--version", action="version", version=version("joulie-devcluster"))
    cluster = argparse.ArgumentParser(add_help=False)
    cluster.add_argument("--name", type=_name, default="joulie", help="name of the cluster (default: %(default)s)")
    cluster.add_argument(
        "--dir", type=Path, metavar="DIR", help="directory of the cluster (default: derived from its name)"
    )
    binaries = argparse.ArgumentParser(add_help=False)
    binaries.add_argument("--binaries", type=Path, metavar="DIR", help="directory that is searched first for binaries")
    binaries.add_argument(
        "--kubernetes",
        choices=kubernetes_minors(),
        metavar="MINOR",
        help="minor release of Kubernetes: one of %(choices)s"
        f" (default: {KUBERNETES_VARIABLE}, or {DEFAULT_KUBERNETES} without it)",
    )
    commands_ = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    _add_up(commands_, [cluster, binaries])
    for name, handler, description in (
        ("down", commands.down, "stop a cluster and remove its files"),
        ("status", commands.status, "show processes, memory, nodes and addresses of a cluster"),
        ("kubeconfig", commands.kubeconfig, "print the path of a cluster's kubeconfig"),
    ):
        simple = commands_.add_parser(name, parents=[cluster], help=description, description=description)
        simple.set_defaults(handler=lambda options, handler=handler: handler(_directory(options)))
    logs = commands_.add_parser("logs", parents=[cluster], help="show logs", description="show logs")
    logs.add_argument(
        "process", nargs="?", metavar="PROCESS", help="process whose log is shown (default: the last lines of all logs)"
    )
    logs.add_argument(
        "--lines", "-n", type=_count, default=50, help="number of lines from the end (default: %(default)s)"
    )
    logs.add_argument("--follow", "-f", action="store_true", help="keep printing what is appended; requires PROCESS")
    logs.set_defaults(handler=_logs)
    description = "download or build the binaries that are not available yet, so that `up` does not have to"
    build = commands_.add_parser("build", parents=[binaries], help=description, description=description)
    names = ", ".join(Binary)
    build.add_argument(
        "binary", nargs="*", type=Binary, metavar="BINARY", help=f"one of {names} (default: those that `up` needs)"
    )
    build.add_argument(
        "--from-source",
        action="store_true",
        help="build what is missing, without downloads; ignore downloaded binaries",
    )
    build.set_defaults(handler=_build)
    description = "check the host; show what is missing and how to install it"
    check = commands_.add_parser("doctor", parents=[binaries], help=description, description=description)
    check.set_defaults(handler=lambda options: doctor(options.binaries, options.kubernetes))
    return parser


def _add_up(
    commands_: "argparse._SubParsersAction[argparse.ArgumentParser]", parents: list[argparse.ArgumentParser]
) -> None:
    up = commands_.add_parser(
        "up",
        parents=parents,
        help="start a cluster",
        description="start a cluster",
        epilog=_UP_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    up.add_argument(
        "--nodes",
        type=_count,
        metavar="N",
        help="number of nodes, in the proportions of the default mix or of --config",
    )
    up.add_argument("--config", type=Path, metavar="FILE", help="YAML file of node classes, see below")
    up.add_argument("--detach", action="store_true", help="run in the background; return when the cluster is ready")
    up.add_argument("--real-node", action="store_true", help="add a node that runs containers; requires root")
    up.add_argument("--no-extender", action="store_true", help="configure kube-scheduler without an extender")
    up.add_argument("--extender-port", type=_port, metavar="PORT", help="port of the extender (default: a free port)")
    up.set_defaults(handler=_up)


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def _port(text: str) -> int:
    number = int(text)
    if not 1 <= number <= _LAST_PORT:
        raise argparse.ArgumentTypeError(f"{number} is not a port number")
    return number


def _name(text: str) -> str:
    # The name of a directory.
    if not text or text.startswith(".") or "/" in text:
        raise argparse.ArgumentTypeError(f"invalid cluster name {text!r}: must not contain '/' or start with '.'")
    return text
