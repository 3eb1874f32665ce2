"""The scheduler configuration that is shipped."""

import re
from pathlib import Path

import yaml

from joulie_devcluster.control_plane.scheduler_config import SchedulerSettings, scheduler_configuration


def configuration(extender_url="http://127.0.0.1:9876", **settings):
    return scheduler_configuration(
        SchedulerSettings(**settings), kubeconfig="/k/scheduler.yaml", extender_url=extender_url
    )


def test_the_extender_receives_node_names_only_and_has_a_short_timeout():
    assert configuration()["extenders"] == [
        {
            "urlPrefix": "http://127.0.0.1:9876",
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "weight": 1,
            "enableHTTPS": False,
            "nodeCacheCapable": True,
            "ignorable": True,
            "httpTimeout": "1000ms",
        }
    ]


def test_without_an_extender_there_is_no_block():
    assert "extenders" not in configuration(extender_url=None)


def test_every_feasible_node_is_passed_to_the_extender_by_default():
    assert configuration()["percentageOfNodesToScore"] == 100
    assert configuration(percentage_of_nodes_to_score=30)["percentageOfNodesToScore"] == 30


def test_the_readme_shows_the_written_configuration():
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    shown = re.search(r"```yaml\n(apiVersion: kubescheduler.*?)```", readme, re.DOTALL)[1]
    written = scheduler_configuration(
        SchedulerSettings(), kubeconfig="/etc/kubernetes/scheduler.conf", extender_url="http://127.0.0.1:9876"
    )
    assert shown == yaml.safe_dump(written, sort_keys=False)


def test_the_scheduler_runs_without_leader_election():
    assert configuration()["leaderElection"] == {"leaderElect": False}


def test_nodes_are_filled_only_on_request():
    assert configuration()["profiles"] == [{"schedulerName": "default-scheduler"}]
    (profile,) = configuration(packing=True)["profiles"]
    strategy = {"type": "MostAllocated"}
    assert profile["pluginConfig"] == [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}]
