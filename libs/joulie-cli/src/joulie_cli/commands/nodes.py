"""`kubectl joulie nodes`: one row for each managed node."""

from argparse import Namespace

from joulie_cli.cluster import connect
from joulie_cli.node_rows import SORT_KEYS
from joulie_cli.outcome import CliError, ExitCode
from joulie_cli.output import as_data, print_data, print_lines, terminal_width
from joulie_cli.render.nodes import node_table


async def run(options: Namespace) -> ExitCode:
    """Print the nodes."""
    async with connect(options) as cluster:
        rows = await cluster.rows(options.selector)
    if options.names:
        unknown = sorted(set(options.names) - {row.name for row in rows})
        if unknown:
            raise CliError(f"node {unknown[0]!r} is not managed", "kubectl joulie nodes lists those that are")
        rows = [row for row in rows if row.name in options.names]
    rows.sort(key=SORT_KEYS[options.sort])
    if as_data(options):
        print_data({"nodes": [row.data() for row in rows]}, options)
    elif rows:
        wide = options.output == "wide"
        print_lines(node_table(rows, wide=wide, width=None if wide else terminal_width()))
    else:
        raise CliError(
            f"no node is managed: none matches {options.selector!r}, and there is no NodePowerProfile",
            "kubectl label node NODE joulie.io/managed=true",
        )
    return ExitCode.OK
