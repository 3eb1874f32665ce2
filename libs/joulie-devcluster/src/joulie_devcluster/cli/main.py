"""The command line: what each command takes, and which function does it.

Results go to stdout, everything else to stderr. Exit status: 0 done, 1 failed, 2 wrong usage, 3 no such cluster.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.cli import commands, up
from joulie_devcluster.cli.doctor import doctor
from joulie_devcluster.errors import DevClusterError
from joulie_devcluster.host.paths import state_home

_FAILED, _INTERRUPTED = 1, 130
_LAST_PORT = 65_535

_DESCRIPTION = """\
A real Kubernetes control plane (etcd, API server, scheduler, controller manager, and KWOK for nodes that cost nothing)
as ordinary processes on this machine's loopback. No Docker, no root, any number of clusters side by side.
"""
_EPILOG = """\
a first session:
  joulie-devcluster doctor                      is everything here? what is missing, and how to get it
  joulie-devcluster up --nodes 40 --detach      40 nodes of several CPU and GPU models, in the background
  export KUBECONFIG=$(joulie-devcluster kubeconfig)
  kubectl get nodes -L joulie.io/hw.cpu-model,joulie.io/hw.gpu-model
  joulie-devcluster down                        stops every process, removes every file

The first start on a machine builds the binaries from pinned Go modules: 8 to 9 minutes on 2 cores, shown as it goes.
They are kept under $XDG_CACHE_HOME/joulie/devcluster (~/.cache), so that every later start takes seconds.
Set KUBEBUILDER_ASSETS to a directory with the binaries to use those instead.
"""
_UP_EPILOG = """\
node classes, as --config takes them (only name and cpu must be given):
  classes:
    - name: h100                    # nodes h100-0, h100-1, ...
      count: 4
      cpu: {model: Intel-Xeon-Platinum-8480, sockets: 2, cores: 112}    # physical cores of all sockets
      gpu: {model: NVIDIA-H100-80GB-HBM3, count: 8, resource: nvidia.com/gpu}
      memory: 2Ti
      pods: 110
      racks: [r1, r2]               # handed out in turn; coolingZones likewise
      managed: true                 # label joulie.io/managed
      labels: {team: ml}

kube-scheduler asks an extender at the port shown by `status`; while nobody listens there, pods schedule without it.
"""


def run(arguments: Sequence[str]) -> int:
    """Parse and perform one command; its exit status."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.perform(options)
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
        extender=not options.no_extender,
        extender_port=options.extender_port,
        real_node=options.real_node,
    )
    return up.up_detached(request) if options.detach else up.up(request)


def _logs(options: argparse.Namespace) -> int:
    return commands.logs(_directory(options), options.process, lines=options.lines, follow=options.follow)


def _directory(options: argparse.Namespace) -> Path:
    directory: Path | None = options.dir
    return directory if directory is not None else state_home() / options.name


def _parser() -> argparse.ArgumentParser:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="joulie-devcluster", description=_DESCRIPTION, epilog=_EPILOG, formatter_class=formatter
    )
    parser.add_argument("--version", action="version", version=version("joulie-devcluster"))
    which = argparse.ArgumentParser(add_help=False)
    which.add_argument("--name", type=_name, default="joulie", help="the cluster's name (default: %(default)s)")
    which.add_argument("--dir", type=Path, metavar="DIR", help="its directory, instead of one by its name")
    finds = argparse.ArgumentParser(add_help=False)
    finds.add_argument("--binaries", type=Path, metavar="DIR", help="look for binaries here first")
    commands_ = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    _add_up(commands_, [which, finds])
    for name, perform, words in (
        ("down", commands.down, "stop a cluster and remove its files"),
        ("status", commands.status, "processes, memory, nodes and addresses of a cluster"),
        ("kubeconfig", commands.kubeconfig, "print the path of a cluster's kubeconfig"),
    ):
        simple = commands_.add_parser(name, parents=[which], help=words, description=words)
        simple.set_defaults(perform=lambda options, perform=perform: perform(_directory(options)))
    logs = commands_.add_parser("logs", parents=[which], help="show logs")
    logs.add_argument("process", nargs="?", metavar="PROCESS", help="whose (default: the end of everybody's)")
    logs.add_argument("--lines", "-n", type=_count, default=50, help="how many from the end (default: %(default)s)")
    logs.add_argument("--follow", "-f", action="store_true", help="go on as it grows; needs PROCESS")
    logs.set_defaults(perform=_logs)
    build = commands_.add_parser("build", parents=[finds], help="get the binaries now, so that `up` need not")
    names = ", ".join(Binary)
    build.add_argument(
        "binary", nargs="*", type=Binary, metavar="BINARY", help=f"of {names} (default: what `up` needs)"
    )
    build.set_defaults(perform=lambda options: commands.build(options.binary, options.binaries))
    examine = commands_.add_parser("doctor", parents=[finds], help="say what is missing and how to get it")
    examine.set_defaults(perform=lambda options: doctor(options.binaries))
    return parser


def _add_up(
    commands_: "argparse._SubParsersAction[argparse.ArgumentParser]", parents: list[argparse.ArgumentParser]
) -> None:
    up = commands_.add_parser(
        "up",
        parents=parents,
        help="start a cluster",
        epilog=_UP_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    up.add_argument("--nodes", type=_count, metavar="N", help="make N nodes: of the default mix, or of --config's")
    up.add_argument("--config", type=Path, metavar="FILE", help="YAML of node classes")
    up.add_argument("--detach", action="store_true", help="return when it is ready, and leave it running")
    up.add_argument("--real-node", action="store_true", help="add a node that runs containers; needs root")
    up.add_argument("--no-extender", action="store_true", help="let kube-scheduler decide alone")
    up.add_argument(
        "--extender-port", type=_port, metavar="PORT", help="where the extender listens (default: any free)"
    )
    up.set_defaults(perform=_up)


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def _port(text: str) -> int:
    number = int(text)
    if not 1 <= number <= _LAST_PORT:
        raise argparse.ArgumentTypeError(f"{number} is no port")
    return number


def _name(text: str) -> str:
    # It becomes the name of a directory.
    if not text or text.startswith(".") or "/" in text:
        raise argparse.ArgumentTypeError(f"{text!r} cannot be a cluster's name: no '/', no '.' in front")
    return text
