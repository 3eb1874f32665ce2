"""Which configuration reaches the resource manager, and what the status of the objects says."""

import asyncio
import json

import pytest
from services.containers.tests.node_agent.documents import make_policy

from joulie_containers.resource_api.proto import resource_api_pb2 as pb
from joulie_core.kinds.container_policy import PolicyNodeStatus
from joulie_testing.api import CutMidLine, Respond

A = {"joulie.io/container-policy-group": "a"}


def named(manifest):
    return json.loads(manifest)["metadata"]["name"] if manifest else None


async def test_the_object_that_applies_is_pushed_whole_and_its_status_names_its_generation(stage):
    stage.api.put(make_policy("default", reservedResources={"cpu": "750m"}))
    async with stage.agent():
        entry = await stage.until_entry("TemplatePolicy", "default", status="Success")
    assert entry == {"status": "Success", "generation": 1, "timestamp": "2027-01-15T08:00:00.000Z"}
    (manifest,) = stage.manager.configs
    assert json.loads(manifest) == {
        "apiVersion": "joulie.io/v1alpha1",
        "kind": "TemplatePolicy",
        "metadata": {"name": "default", "generation": 1},
        "spec": {"reservedResources": {"cpu": "750m"}},
    }


async def test_a_bad_configuration_is_reported_with_the_reason_and_corrected_by_the_next_generation(stage):
    stage.manager.refusals["never"] = "spec.reservedResources.cpu: 'never' is no quantity"
    stage.api.put(make_policy("default", reservedResources={"cpu": "never"}))
    async with stage.agent():
        entry = await stage.until_entry("TemplatePolicy", "default", status="Failure")
        assert entry["errors"] == "spec.reservedResources.cpu: 'never' is no quantity"
        stage.api.patch("TemplatePolicy", "default", {"spec": {"reservedResources": {"cpu": "1"}}})
        entry = await stage.until_entry("TemplatePolicy", "default", status="Success")
    assert (entry["generation"], "errors" in entry) == (2, False)


async def test_fields_without_effect_are_named_in_the_status_until_they_are_removed(stage):
    stage.manager.ignored = ["spec.controllableInterrupts", "spec." + 300 * "x", *(f"spec.{n}" for n in range(40))]
    stage.api.put(make_policy("default"))
    async with stage.agent():
        entry = await stage.until_entry("TemplatePolicy", "default", status="Success")
        assert entry["ignored"][:2] == ["spec.controllableInterrupts", "spec." + 250 * "x" + "\N{HORIZONTAL ELLIPSIS}"]
        assert entry["ignored"][-1] == "spec.29"
        PolicyNodeStatus.model_validate(entry)
        stage.manager.ignored = []
        stage.api.patch("TemplatePolicy", "default", {"spec": {"reservedResources": {"cpu": "1"}}})
        entry = await stage.until_entry("TemplatePolicy", "default", generation=2)
    assert "ignored" not in entry


@pytest.mark.parametrize("report_success", [True, False])
async def test_what_cpu_classes_lack_is_in_the_status_while_they_do(stage, report_success):
    stage.api.put(make_policy("default"))
    stage.report_success = report_success
    async with stage.agent():
        await stage.manager.until(lambda: stage.manager.configs)
        stage.manager.status = pb.ManagerStatus(
            cpu_classes_problem="class eco: epp: no such file (CPUs 0-3)", interrupts_problem="3 of them"
        )
        await stage.api.wait_for(lambda: (stage.entry("TemplatePolicy", "default") or {}).get("cpuClasses"))
        entry = stage.entry("TemplatePolicy", "default")
        assert (entry["status"], entry["cpuClasses"]) == ("Success", "class eco: epp: no such file (CPUs 0-3)")
        assert entry["interrupts"] == "3 of them"
        PolicyNodeStatus.model_validate(entry)
        stage.manager.status = pb.ManagerStatus()
        await stage.api.wait_for(lambda: "cpuClasses" not in (stage.entry("TemplatePolicy", "default") or {}))
        await stage.api.wait_for(lambda: (stage.entry("TemplatePolicy", "default") is not None) == report_success)
    assert len(stage.manager.configs) == 1


async def test_a_change_of_the_node_s_group_moves_the_entry_to_the_object_that_applies_now(stage):
    stage.api.put_all([make_policy("default"), make_policy("group.a")])
    async with stage.agent():
        await stage.until_entry("TemplatePolicy", "default", status="Success")
        stage.relabel(A)
        await stage.until_entry("TemplatePolicy", "group.a", status="Success")
        await stage.api.wait_for(lambda: stage.entry("TemplatePolicy", "default") is None)
        stage.relabel(dict.fromkeys(A))
        await stage.until_entry("TemplatePolicy", "default", status="Success")
        await stage.api.wait_for(lambda: stage.entry("TemplatePolicy", "group.a") is None)
    assert [named(each) for each in stage.manager.configs] == ["default", "group.a", "default"]


async def test_a_node_of_a_group_without_an_object_gets_none(stage):
    stage.relabel(A)
    stage.api.put(make_policy("default"))
    async with stage.agent():
        await stage.manager.until(lambda: stage.manager.configs)
    assert stage.manager.configs == [""]
    assert stage.entry("TemplatePolicy", "default") is None


async def test_the_deletion_of_the_object_is_pushed(stage):
    stage.api.put(make_policy("default"))
    async with stage.agent():
        await stage.until_entry("TemplatePolicy", "default", status="Success")
        stage.api.remove("TemplatePolicy", "default")
        await stage.manager.until(lambda: stage.manager.configs[-1] == "")


async def test_two_kinds_for_one_node_are_reported_in_both_and_neither_is_pushed(stage):
    stage.api.put_all([make_policy("default"), make_policy("default", "BalloonsPolicy")])
    async with stage.agent():
        for kind in ("TemplatePolicy", "BalloonsPolicy"):
            entry = await stage.until_entry(kind, "default", status="Failure")
            assert "BalloonsPolicy/default, TemplatePolicy/default apply to this node" in entry["errors"]
        assert stage.manager.configs == []
        stage.api.remove("BalloonsPolicy", "default")
        await stage.until_entry("TemplatePolicy", "default", status="Success")
    assert len(stage.manager.configs) == 1


async def test_only_failures_are_reported_where_that_is_set(stage):
    stage.report_success = False
    stage.manager.refusals["never"] = "no quantity"
    stage.api.put(make_policy("default", reservedResources={"cpu": "never"}))
    async with stage.agent():
        await stage.until_entry("TemplatePolicy", "default", status="Failure")
        stage.api.patch("TemplatePolicy", "default", {"spec": {"reservedResources": {"cpu": "1"}}})
        await stage.api.wait_for(lambda: stage.entry("TemplatePolicy", "default") is None)


async def test_objects_of_other_nodes_get_no_entry(stage):
    stage.api.put_all([make_policy("node.n2"), make_policy("group.a"), make_policy("node.n1")])
    async with stage.agent():
        await stage.until_entry("TemplatePolicy", "node.n1", status="Success")
        assert [named(each) for each in stage.manager.configs] == ["node.n1"]
        assert [stage.entry("TemplatePolicy", name) for name in ("node.n2", "group.a")] == [None, None]


async def test_a_graceful_end_removes_the_entry_and_leaves_those_of_other_nodes(stage):
    other = {"status": "Success", "generation": 1}
    stage.api.put({**make_policy("default"), "status": {"nodes": {"n2": other}}})
    async with stage.agent():
        await stage.until_entry("TemplatePolicy", "default", status="Success")
    assert stage.api.get("TemplatePolicy", "default")["status"] == {"nodes": {"n2": other}}


async def test_an_entry_that_an_earlier_process_left_on_another_object_is_removed(stage):
    left = {"status": {"nodes": {"n1": {"status": "Success", "generation": 7}}}}
    stage.api.put({**make_policy("group.a"), **left})
    async with stage.agent():
        await stage.api.wait_for(lambda: stage.entry("TemplatePolicy", "group.a") is None)


async def test_an_entry_stays_while_the_resource_manager_cannot_be_reached(stage):
    await stage.manager.stop()
    left = {"status": {"nodes": {"n1": {"status": "Success", "generation": 1}}}}
    stage.api.put_all([{**make_policy("default"), **left}, {**make_policy("group.a"), **left}])
    async with stage.agent():
        await stage.api.wait_for(lambda: stage.entry("TemplatePolicy", "group.a") is None)
        assert stage.entry("TemplatePolicy", "default") == left["status"]["nodes"]["n1"]


async def test_an_equal_entry_is_not_written_again_by_the_next_process(stage):
    left = {"status": {"nodes": {"n1": {"status": "Success", "generation": 1, "timestamp": "2026-01-01T00:00:00Z"}}}}
    stage.api.put({**make_policy("default"), **left})
    async with stage.agent():
        await stage.manager.until(lambda: stage.manager.configs)
        stage.api.put(make_policy("group.a") | {"status": {"nodes": {"n1": {}}}})
        await stage.api.wait_for(lambda: stage.entry("TemplatePolicy", "group.a") is None)
        assert stage.entry("TemplatePolicy", "default") == left["status"]["nodes"]["n1"]


async def test_what_applies_again_is_pushed_again(stage):
    stage.api.put(make_policy("default"))
    async with stage.agent() as agent:
        await stage.until_entry("TemplatePolicy", "default", status="Success")
        # Nothing else runs between the two changes, as where a push takes longer than both.
        for labels in (A, dict.fromkeys(A)):
            stage.relabel(labels)
            agent._select()
        await stage.manager.until(lambda: len(stage.manager.configs) == 2)
        await stage.until_entry("TemplatePolicy", "default", status="Success")


async def test_a_restarted_resource_manager_gets_everything_again(stage):
    stage.api.put(make_policy("default"))
    async with stage.agent():
        await stage.manager.until(lambda: stage.manager.configs and stage.manager.adjustments)
        await stage.manager.restart()
        await stage.manager.until(lambda: len(stage.manager.configs) == 2 and len(stage.manager.adjustments) == 2)
    assert stage.manager.configs[0] == stage.manager.configs[1]


async def test_only_the_last_of_several_changes_counts_while_the_resource_manager_is_away(stage):
    await stage.manager.stop()
    stage.api.put(make_policy("default"))
    async with stage.agent():
        for number in range(5):
            stage.api.patch("TemplatePolicy", "default", {"spec": {"reservedResources": {"cpu": str(number)}}})
        await stage.manager.start()
        await stage.until_entry("TemplatePolicy", "default", generation=6)
    assert json.loads(stage.manager.configs[-1])["spec"] == {"reservedResources": {"cpu": "4"}}
    assert len(stage.manager.configs) < 5


@pytest.mark.parametrize("fault", [Respond(429, retry_after_s=0), Respond(503), Respond(409), CutMidLine()])
async def test_a_status_that_could_not_be_written_is_written_later(stage, fault):
    verb = "watch" if isinstance(fault, CutMidLine) else "patch"
    stage.api.faults.add(fault, verb=verb, path="/templatepolicies", times=2)
    stage.api.put(make_policy("default"))
    async with stage.agent():
        await stage.until_entry("TemplatePolicy", "default", status="Success")
    assert len(stage.manager.configs) == 1


async def test_an_error_is_cut_to_what_the_schema_takes(stage):
    stage.manager.refusals["TemplatePolicy"] = "x" * 10_000
    stage.api.put(make_policy("default"))
    async with stage.agent():
        entry = await stage.until_entry("TemplatePolicy", "default", status="Failure")
    assert len(entry["errors"]) == 4096


async def test_an_object_that_is_replaced_by_one_of_the_same_name_is_pushed_again(stage):
    stage.api.put(make_policy("default"))
    async with stage.agent():
        await stage.until_entry("TemplatePolicy", "default", status="Success")
        stage.api.remove("TemplatePolicy", "default")
        stage.api.put(make_policy("default", reservedResources={"cpu": "2"}))
        await stage.manager.until(lambda: len(stage.manager.configs) == 2)
        await stage.until_entry("TemplatePolicy", "default", status="Success")
    assert json.loads(stage.manager.configs[-1])["spec"] == {"reservedResources": {"cpu": "2"}}


async def test_an_object_that_takes_the_name_of_another_does_not_get_its_entry(stage):
    stage.api.put_all([make_policy("default"), make_policy("group.a")])
    async with stage.agent():
        await stage.until_entry("TemplatePolicy", "default", status="Success")
        stage.manager.answering.clear()
        stage.api.remove("TemplatePolicy", "default")
        stage.api.put(make_policy("default", reservedResources={"cpu": "2"}))
        await stage.manager.until(lambda: len(stage.manager.configs) == 2)
        # A write that nothing of the resource manager holds up: entries before it are written by then.
        stage.api.patch("TemplatePolicy", "group.a", {"status": {"nodes": {"n1": {"status": "Success"}}}})
        await stage.api.wait_for(lambda: stage.entry("TemplatePolicy", "group.a") is None)
        assert stage.entry("TemplatePolicy", "default") is None
        stage.manager.answering.set()
        await stage.until_entry("TemplatePolicy", "default", status="Success")


async def test_the_end_does_not_wait_for_an_api_server_that_is_away(stage):
    stage.api.put(make_policy("default"))
    async with asyncio.timeout(8), stage.agent():
        await stage.until_entry("TemplatePolicy", "default", status="Success")
        await stage.api.stop()
    await stage.api.start()
    assert stage.entry("TemplatePolicy", "default")
