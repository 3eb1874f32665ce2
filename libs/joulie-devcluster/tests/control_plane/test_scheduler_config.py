"""The scheduler configuration that is shipped."""

import re
from pathlib import Path

import yaml

from joulie_devcluster.control_plane.scheduler_config import SchedulerSettings, scheduler_configuration


def configuration(extender_url="http://127.0.0.1:9876", **settings):
    return scheduler_configuration(
        SchedulerSettings(**settings), kubeconfig="/k/scheduler.yaml", extender_url=extender_url
    )


def test_the_extender_block_is_the_documents_with_node_names_only_and_a_short_timeout():
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


def test_every_feasible_node_reaches_the_extender_unless_told_otherwise():
    assert configuration()["percentageOfNodesToScore"] == 100
    assert configuration(percentage_of_nodes_to_score=30)["percentageOfNodesToScore"] == 30


def test_the_readme_shows_what_is_written():
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    shown = re.search(r"```yaml\n(apiVersion: kubescheduler.*?)```", readme, re.DOTALL)[1]
    written = scheduler_configuration(
        SchedulerSettings(), kubeconfig="/etc/kubernetes/scheduler.conf", extender_url="http://127.0.0.1:9876"
    )
    assert shown == yaml.safe_dump(written, sort_keys=False)


def test_the_single_scheduler_holds_no_election():
    assert configuration()["leaderElection"] == {"leaderElect": False}
