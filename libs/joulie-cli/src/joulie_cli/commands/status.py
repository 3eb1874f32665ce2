"""`kubectl joulie status`: the cluster at a glance."""

import asyncio
from argparse import Namespace
from typing import Final

import msgspec

from joulie_api.resources import PODS
from joulie_cli.cluster import ClusterReader, connect
from joulie_cli.outcome import ExitCode
from joulie_cli.output import as_data, print_data, print_lines, terminal_width
from joulie_cli.overview import overview
from joulie_cli.render.status import status_lines
from joulie_cli.service_pods import SELECTOR, decode_service_pod


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = "unknown version"


_VERSIONS: Final = msgspec.json.Decoder(_Version)


async def run(options: Namespace) -> ExitCode:
    """Print the overview."""
    async with connect(options) as cluster:
        rows, pods, version = await asyncio.gather(
            cluster.rows(options.selector),
            cluster.read_permitted(PODS, decode_service_pod, label_selector=SELECTOR),
            read_version(cluster),
        )
        found = overview(rows, pods, server=cluster.client.server, kubernetes=version)
    if as_data(options):
        print_data(found.data(), options)
    else:
        print_lines(status_lines(found, terminal_width()))
    return ExitCode.OK


async def read_version(cluster: ClusterReader) -> str:
    """Return the version of the API server, as `v1.34.4`."""
    return _VERSIONS.decode(await cluster.client.request("GET", "/version")).git_version
