"""The openb-2023 trace on its own nodes, where the files are."""

import json

import pyarrow.parquet as pq

from joulie_sim.cli import main
from joulie_sim.workload.openb_csv import NODE_FILE, POD_FILE

_PODS = 1500


def test_pods_of_the_trace_run_on_its_nodes(public_data, tmp_path) -> None:
    jobs, nodes, out = tmp_path / "jobs.jsonl", tmp_path / "nodes.jsonl", tmp_path / "result"
    lists = (str(public_data(f"openb-2023/{POD_FILE}")), "--nodes", str(public_data(f"openb-2023/{NODE_FILE}")))
    converted = ("--out", str(jobs), "--nodes-out", str(nodes))
    assert main(["import", "openb", *lists, "--pods", str(_PODS), "--hours", "48", "--load", "0.3", *converted]) == 0
    inputs = ("--jobs", str(jobs), "--nodes", str(nodes))
    assert main(["run", "--arm", "static_partition", *inputs, "--out", str(out)]) == 0
    manifest = json.loads((out / "manifest.json").read_text())
    summary = manifest["summary"]
    assert (manifest["nodes"], summary["jobs"], summary["done"]) == (1523, _PODS, _PODS)
    assert summary["itKwh"] > summary["idleKw"] * summary["endS"] / 3600
    assert pq.read_table(out / "jobs.parquet").column("left_s").to_pylist() == [0.0] * _PODS
