import asyncio
import os
import subprocess
import sys

import pytest

from joulie_cli.__main__ import perform
from joulie_cli.arguments import VERBS, make_parser
from joulie_cli.verbs.completion import complete, script
from joulie_testing.api import make_pod
from joulie_testing.cli import managed_node


def test_verbs_are_completed():
    assert set(VERBS) < set(complete([""]))
    assert complete(["wh"]) == ["why-pending"]
    assert complete(["wa"]) == ["wake"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["nodes", "--sor"], ["--sort"]),
        (["nodes", "--sort", "w"], ["watts"]),
        (["nodes", "-o", ""], ["json", "table", "wide", "yaml"]),
        (["explain", ""], ["node", "pod"]),
        (["completion", ""], ["bash", "fish", "zsh"]),
        (
            ["wake", "--"],
            [
                "--all",
                "--clear-quarantine",
                "--context",
                "--for",
                "--help",
                "--kubeconfig",
                "--output",
                "--timeout",
                "--wait",
            ],
        ),
        (["wake", "--for", ""], []),
        (["nodes", "--kubeconfig", ""], []),
    ],
)
def test_options_and_their_values_are_completed(words, expected):
    assert complete(words) == expected


def test_only_the_verb_that_is_completed_is_imported_and_no_client():
    """A shell waits for it, at every key."""
    program = (
        "import sys; from joulie_cli.verbs.completion import complete; print(complete(sys.argv[1:]), *sys.modules)"
    )
    command = [sys.executable, "-c", program, "nodes", "--sor"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found, *modules = done.stdout.split()
    assert found == "['--sort']"
    verbs = {name for name in modules if name.startswith("joulie_cli.verbs.")}
    assert verbs == {"joulie_cli.verbs.nodes", "joulie_cli.verbs.completion"}
    assert {"aiohttp", "rich", "structlog", "yaml", "joulie_core.kinds"} & set(modules) == set()


def test_names_are_left_out_where_the_cluster_does_not_answer():
    assert complete(["profile", "--kubeconfig", "/nowhere", ""]) == []


@pytest.fixture
def names(fake_api, tmp_path, monkeypatch):
    """Completes with names of a cluster, from another thread as the server's loop is this one."""
    fake_api.put_all(managed_node("worker-1"))
    fake_api.put_all([make_pod("train"), make_pod("web", "shop")])
    kubeconfig = str(fake_api.kubeconfig(tmp_path))

    async def run(*words):
        verb, *rest = words
        return await asyncio.to_thread(complete, [verb, "--kubeconfig", kubeconfig, *rest])

    return run


async def test_names_of_nodes_and_pods_are_completed(names):
    assert await names("profile", "") == ["worker-1"]
    assert await names("wake", "") == ["worker-1"]
    assert await names("explain", "node", "w") == ["worker-1"]
    assert await names("explain", "pod", "x", "--node", "") == ["worker-1"]
    assert await names("why-pending", "") == ["train"]
    assert await names("why-pending", "-n", "shop", "") == ["web"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
async def test_every_shell_has_a_script_that_queries_the_plugin(capsys, shell):
    assert await perform(make_parser().parse_args(["completion", shell])) == 0
    assert "kubectl_complete-joulie" in capsys.readouterr().out


def test_bash_completes_with_the_script(tmp_path):
    """In a real bash, with a stand-in for the program that finds candidates."""
    program = tmp_path / "kubectl_complete-joulie"
    program.write_text('#!/bin/sh\necho "nodes of $*"\necho :4\n')
    program.chmod(0o755)
    (tmp_path / "script").write_text(script("bash"))
    command = (
        'source "$1/script"; COMP_WORDS=(kubectl-joulie no); COMP_CWORD=1; _kubectl_joulie; echo "${COMPREPLY[*]}"'
    )
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", command, "-", tmp_path], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "nodes of no"
