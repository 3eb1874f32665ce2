"""Writes helm/joulie/dashboards/, one file for each dashboard."""

import sys

from tools.dashboards.boards import BOARDS
from tools.dashboards.panels import grafana_json
from tools.generated import ROOT, finish

_DIRECTORY = ROOT / "helm" / "joulie" / "dashboards"

if __name__ == "__main__":
    codes = [finish(_DIRECTORY / f"{board.name}.json", grafana_json(board), "just dashboards") for board in BOARDS]
    sys.exit(max(codes))
