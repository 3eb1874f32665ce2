"""Adjustments that name the node, and their errors."""

import json
from dataclasses import replace

from services.containers.tests.node_agent.documents import make_adjustment, make_policy

ECO = {"classes": {"cpu": "eco"}}


async def test_the_adjustments_that_name_the_node_are_pushed_together(stage):
    stage.api.put_all(
        [
            make_adjustment("all", **ECO),
            make_adjustment("mine", scope=[{"nodes": ["n?"]}], **ECO),
            make_adjustment("other", scope=[{"nodes": ["m*"]}], **ECO),
        ]
    )
    async with stage.agent():
        await stage.manager.until(lambda: stage.manager.adjustments)
    (pushed,) = stage.manager.adjustments
    assert sorted(pushed) == ["all", "mine"]
    assert json.loads(pushed["mine"]) == {
        "apiVersion": "joulie.io/v1alpha1",
        "kind": "Adjustment",
        "metadata": {"name": "mine", "generation": 1},
        "spec": {"scope": [{"nodes": ["n?"]}], **ECO},
    }


async def test_none_is_pushed_too(stage):
    async with stage.agent():
        await stage.manager.until(lambda: stage.manager.adjustments)
    assert stage.manager.adjustments == [{}]


async def test_errors_are_in_the_status_by_container_and_for_the_whole_spec(stage):
    stage.manager.errors = {"bad": {"": "no such class", "ns/p/main": "two Adjustments"}, "good": {}}
    stage.api.put_all([make_adjustment("bad", **ECO), make_adjustment("good", **ECO)])
    async with stage.agent():
        entry = await stage.until_entry("Adjustment", "bad", generation=1)
        assert stage.entry("Adjustment", "good") is None
    assert entry == {
        "generation": 1,
        "errors": {"spec": "no such class", "ns/p/main": "two Adjustments"},
        "timestamp": "2027-01-15T08:00:00.000Z",
    }


async def test_an_error_that_is_gone_leaves_the_status_and_the_others_stay(stage):
    stage.manager.errors = {"bad": {"ns/p/a": "first", "ns/p/b": "second"}}
    stage.api.put(make_adjustment("bad", **ECO))
    async with stage.agent():
        await stage.until_entry("Adjustment", "bad", errors={"ns/p/a": "first", "ns/p/b": "second"})
        stage.manager.errors = {"bad": {"ns/p/b": "second"}}
        stage.api.patch("Adjustment", "bad", {"spec": {"classes": {"cpu": "standard"}}})
        await stage.until_entry("Adjustment", "bad", errors={"ns/p/b": "second"}, generation=2)
        stage.manager.errors = {}
        stage.api.patch("Adjustment", "bad", {"spec": ECO})
        await stage.api.wait_for(lambda: stage.entry("Adjustment", "bad") is None)


async def test_errors_of_containers_that_started_later_are_reported(stage):
    stage.pace = replace(stage.pace, compare_interval_s=0.01)
    stage.api.put(make_adjustment("bad", **ECO))
    async with stage.agent():
        await stage.manager.until(lambda: stage.manager.adjustments)
        stage.manager.errors = {"bad": {"ns/late/main": "two Adjustments"}}
        await stage.until_entry("Adjustment", "bad", errors={"ns/late/main": "two Adjustments"})


async def test_a_scope_that_no_longer_names_the_node_withdraws_adjustment_and_entry(stage):
    stage.manager.errors = {"bad": {"": "wrong"}}
    stage.api.put(make_adjustment("bad", **ECO))
    async with stage.agent():
        await stage.until_entry("Adjustment", "bad", errors={"spec": "wrong"})
        stage.api.patch("Adjustment", "bad", {"spec": {"scope": [{"nodes": ["m1"]}]}})
        await stage.api.wait_for(lambda: stage.entry("Adjustment", "bad") is None)
        await stage.manager.until(lambda: stage.manager.adjustments[-1] == {})


async def test_many_long_errors_are_cut_to_what_the_schema_takes(stage):
    stage.manager.errors = {"bad": {f"ns/p/{number:04}": "x" * 2000 for number in range(1100)}}
    stage.api.put(make_adjustment("bad", **ECO))
    async with stage.agent():
        entry = await stage.until_entry("Adjustment", "bad", generation=1)
    assert entry["errors"].pop("more") == "1037 more errors"
    assert (len(entry["errors"]), {len(each) for each in entry["errors"].values()}) == (63, {1024})


async def test_a_graceful_end_removes_the_errors(stage):
    stage.manager.errors = {"bad": {"": "wrong"}}
    stage.api.put_all([make_adjustment("bad", **ECO), make_policy("default")])
    async with stage.agent():
        await stage.until_entry("Adjustment", "bad", errors={"spec": "wrong"})
    assert stage.entry("Adjustment", "bad") is None
