"""The study of SCORE_MAX: its nodes, and how it counts what pods did not get."""

import re

import pytest
from experiments.config import ROOT
from experiments.spread import SEEDS, table
from experiments.spread_services import SpreadService, arrivals, node_classes, services, violations


def test_pods_that_did_not_get_what_they_prefer_are_counted_by_request():
    of = [SpreadService("z", "zones", 2), SpreadService("n", "nodes", 2), SpreadService("l", "label", 2)]
    nodes = {"a1": ("a", "ssd"), "b1": ("b", "hdd"), "c1": ("c", "hdd")}
    labels = {name: {"topology.kubernetes.io/zone": zone, "disk": disk} for name, (zone, disk) in nodes.items()}
    everywhere = {(each.name, number): name for each in of for number, name in enumerate(nodes)}
    assert violations(of, everywhere, labels) == {
        "zones_pct": 0.0,
        "nodes_pct": 0.0,
        "label_pct": pytest.approx(200 / 3),
    }
    piled = dict.fromkeys(everywhere, "a1")
    assert violations(of, piled, labels) == {
        "zones_pct": pytest.approx(200 / 3),
        "nodes_pct": pytest.approx(200 / 3),
        "label_pct": 0.0,
    }


def test_the_study_of_score_max_has_fifty_nodes_and_room_for_all_pods_with_a_preference():
    classes = node_classes()
    assert sum(each.count for each in classes) == 50
    disks = sum(each.count * each.cpu.cores * 2 for each in classes if each.labels["disk"] == "ssd")
    assert all(
        sum(each.cpu for each, _ in arrivals(services(seed), seed) if each.request == "label") <= disks
        for seed in range(SEEDS)
    )


def test_the_page_about_experiments_has_the_table_of_the_study():
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search("<!-- begin 06-score-max -->\n(.*?)\n<!-- end 06-score-max -->", page, re.DOTALL)
    assert found
    assert found[1] == table(), "run `python -m experiments.spread`"
