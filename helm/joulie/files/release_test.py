# ruff: noqa: INP001 - a file of the chart, not of a package
"""`helm test`: asks the extender through its Service as kube-scheduler does, at the address `EXTENDER`.

The pod is of a class that the extender keeps off no node, so that all nodes must be in both answers. Requests are
repeated for a minute, since pods may just be starting.
"""

import http.client
import json
import os
import sys
import time
from typing import Any

_NODES = ["node-a", "node-b"]
_POD = {"name": "test", "namespace": "default", "annotations": {"joulie.io/workload-class": "standard"}}
_BODY = json.dumps({"Pod": {"metadata": _POD}, "Nodes": None, "NodeNames": _NODES})
_WAIT_S = 60.0


def _post(address: str, path: str) -> Any:
    connection = http.client.HTTPConnection(address, timeout=5)
    try:
        connection.request("POST", path, _BODY, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        content = reply.read()
    finally:
        connection.close()
    if reply.status != http.HTTPStatus.OK:
        raise ValueError(f"{path} answered with status {reply.status}: {content[:500]!r}")
    return json.loads(content)


def _check(address: str) -> None:
    filtered = _post(address, "/filter")
    if filtered["NodeNames"] != _NODES:
        raise ValueError(f"/filter answered {filtered}")
    scores = _post(address, "/prioritize")
    if [each["Host"] for each in scores] != _NODES:
        raise ValueError(f"/prioritize answered {scores}")


def main(address: str) -> int:
    """Print the result and return the exit status."""
    end = time.monotonic() + _WAIT_S
    while True:
        try:
            _check(address)
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
            if time.monotonic() >= end:
                sys.stdout.write(f"{address}: {error!r}\n")
                return 1
            time.sleep(1)
        else:
            sys.stdout.write(f"the extender at {address} filters and scores\n")
            return 0


if __name__ == "__main__":
    sys.exit(main(os.environ["EXTENDER"]))
