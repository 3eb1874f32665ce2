"""A `docker` that runs nothing. It answers kind until kind starts kubeadm, which fails, and keeps what it got.

Everything is in the directory `DOCKER_STAND_IN`: `calls.jsonl` has the arguments of each call, one JSON list a line;
`nodes/NAME/` has the files that kind wrote into a node, below the node's paths. `image/` has the files of the node
image, of which kind reads the version of Kubernetes and containerd's configuration.
"""

import json
import os
import sys
from pathlib import Path

HOME = Path(os.environ["DOCKER_STAND_IN"])
ROLE_LABEL = "io.x-k8s.kind.role="


def main(arguments: list[str]) -> int:
    """Answer one call."""
    with (HOME / "calls.jsonl").open("a") as calls:
        calls.write(json.dumps(arguments) + "\n")
    match arguments:
        case ["--version"] | ["-v"]:
            print("Docker version 20.10.24, build stand-in")
        case ["run", *_]:
            (HOME / "nodes" / _option(arguments, "--name")).mkdir(parents=True)
            (HOME / "nodes" / _option(arguments, "--name") / "role").write_text(_role(arguments))
        case ["ps", *_]:
            sys.stdout.writelines(f"{name}\n" for name in _names())
        case ["logs", *_]:
            print("Reached target Multi-User System.")
        case ["info", *_]:
            print('{"CgroupVersion": "2"}')
        case ["network", "ls", *_]:
            print("0123456789ab")
        case ["network", "inspect", *_]:
            print('[{"Id": "0123456789ab", "Name": "kind", "Containers": {}}]')
        case ["inspect", "--format" | "-f", template, name]:
            print(_inspect(template, name))
        case ["exec", *rest]:
            return _execute(rest)
        case _:
            pass
    return 0


def _option(arguments: list[str], name: str) -> str:
    return arguments[arguments.index(name) + 1]


def _role(arguments: list[str]) -> str:
    return next(each.removeprefix(ROLE_LABEL) for each in arguments if each.startswith(ROLE_LABEL))


def _names() -> list[str]:
    return sorted(path.name for path in (HOME / "nodes").glob("*"))


def _inspect(template: str, name: str) -> str:
    if ROLE_LABEL.removesuffix("=") in template:
        return (HOME / "nodes" / name / "role").read_text()
    if "IPAddress" in template:
        return f"172.18.0.{2 + _names().index(name)},"
    if "HostPort" in template:
        return "127.0.0.1\t6443"
    return ""


def _execute(arguments: list[str]) -> int:
    while arguments[0].startswith("-"):
        arguments = arguments[2 if arguments[0] == "-e" else 1 :]
    name, *command = arguments
    node = HOME / "nodes" / name
    match command:
        case ["cat", path]:
            written, shipped = node / path.lstrip("/"), HOME / "image" / path.lstrip("/")
            sys.stdout.write((written if written.exists() else shipped).read_text())
        case ["cp", "/dev/stdin", path]:
            target = node / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(sys.stdin.read())
        case ["kubeadm", *_]:
            sys.stderr.write("kubeadm does not run in a stand-in\n")
            return 1
        case _:
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
