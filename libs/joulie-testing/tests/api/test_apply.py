from joulie_testing.api import make_node

PROFILES = "/apis/joulie.io/v1alpha1/nodepowerprofiles"
PATH = f"{PROFILES}/n"


async def test_an_apply_creates_what_is_not_there(fake_api, raw, make_profile):
    status, body = await raw.apply(PATH, make_profile("n", cpu={"watts": 1}), manager="a")
    assert (status, body["spec"]) == (201, {"cpu": {"watts": 1}})
    assert fake_api.owners("NodePowerProfile", "n") == {"a": [".spec.cpu.watts"]}


async def test_a_status_apply_does_not_create(raw, make_profile):
    status, _ = await raw.apply(f"{PATH}/status", make_profile("n", phase="x"), manager="a")
    assert status == 404


async def test_a_field_no_longer_applied_goes(fake_api, raw, make_profile):
    await raw.apply(PATH, make_profile("n", cpu={"watts": 1, "pct": 60}), manager="a")
    await raw.apply(PATH, make_profile("n", cpu={"watts": 1}), manager="a")
    assert fake_api.get("NodePowerProfile", "n")["spec"] == {"cpu": {"watts": 1}}


async def test_a_map_emptied_by_its_owner_goes_too(fake_api, raw, make_profile):
    await raw.apply(PATH, make_profile("n", cpu={"watts": 1}), manager="a")
    await raw.apply(PATH, make_profile("n"), manager="a")
    assert "spec" not in fake_api.get("NodePowerProfile", "n")


async def test_a_field_another_manager_also_applies_stays(fake_api, raw, make_profile):
    await raw.apply(PATH, make_profile("n", cpu={"watts": 1}), manager="a")
    assert (await raw.apply(PATH, make_profile("n", cpu={"watts": 1}), manager="b"))[0] == 200
    await raw.apply(PATH, make_profile("n"), manager="a")
    assert fake_api.get("NodePowerProfile", "n")["spec"] == {"cpu": {"watts": 1}}
    assert fake_api.owners("NodePowerProfile", "n") == {"b": [".spec.cpu.watts"]}


async def test_another_managers_value_is_a_conflict_that_names_it(fake_api, raw, make_profile):
    await raw.apply(PATH, make_profile("n", cpu={"watts": 1}), manager="a")
    status, body = await raw.apply(PATH, make_profile("n", cpu={"watts": 2}), manager="b")
    assert status == 409
    assert 'conflict with "a": .spec.cpu.watts' in body["message"]
    assert body["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "a"', "field": ".spec.cpu.watts"}
    ]
    assert fake_api.get("NodePowerProfile", "n")["spec"] == {"cpu": {"watts": 1}}


async def test_force_takes_the_field_over(fake_api, raw, make_profile):
    await raw.apply(PATH, make_profile("n", cpu={"watts": 1, "pct": 5}), manager="a")
    status, _ = await raw.apply(PATH, make_profile("n", cpu={"watts": 2}), manager="b", force="true")
    assert status == 200
    assert fake_api.get("NodePowerProfile", "n")["spec"] == {"cpu": {"watts": 2, "pct": 5}}
    assert fake_api.owners("NodePowerProfile", "n") == {"a": [".spec.cpu.pct"], "b": [".spec.cpu.watts"]}


async def test_a_patch_by_another_manager_makes_the_next_unforced_apply_conflict(fake_api, raw, make_profile):
    await raw.apply(PATH, make_profile("n", cpu={"watts": 1}), manager="a")
    await raw.merge(PATH, {"spec": {"cpu": {"watts": 9}}}, fieldManager="kubectl-edit")
    status, body = await raw.apply(PATH, make_profile("n", cpu={"watts": 1}), manager="a")
    assert status == 409
    assert "kubectl-edit" in body["message"]


async def test_the_same_apply_twice_makes_one_revision(fake_api, raw, make_profile):
    for _ in range(2):
        await raw.apply(PATH, make_profile("n", cpu={"watts": 72}), manager="a")
    await raw.apply(PATH, make_profile("n", cpu={"watts": 72.0}), manager="a")
    assert fake_api.resource_version == 1


async def test_spec_and_status_of_one_manager_are_separate_sets(fake_api, raw, make_profile):
    await raw.apply(PATH, make_profile("n", cpu={"watts": 1}), manager="a")
    await raw.apply(f"{PATH}/status", make_profile("n", phase="x"), manager="a")
    await raw.apply(PATH, make_profile("n", cpu={"watts": 2}), manager="a")
    stored = fake_api.get("NodePowerProfile", "n")
    assert (stored["spec"], stored["status"]) == ({"cpu": {"watts": 2}}, {"phase": "x"})


async def test_two_managers_each_keep_their_own_condition(fake_api, raw, make_profile):
    fake_api.put(make_profile("n"))
    planned = {"type": "Planned", "status": "True"}
    enforced = {"type": "Enforced", "status": "False"}
    await raw.apply(f"{PATH}/status", make_profile("n", conditions=[planned]), manager="operator")
    await raw.apply(f"{PATH}/status", make_profile("n", conditions=[enforced]), manager="agent")
    assert fake_api.get("NodePowerProfile", "n")["status"]["conditions"] == [planned, enforced]
    await raw.apply(f"{PATH}/status", make_profile("n", phase="x"), manager="operator")
    assert fake_api.get("NodePowerProfile", "n")["status"] == {"conditions": [enforced], "phase": "x"}


async def test_other_lists_are_replaced_whole(fake_api, raw, make_profile):
    await raw.apply(PATH, make_profile("n", cpu={"ids": [1, 2]}), manager="a")
    await raw.apply(PATH, make_profile("n", cpu={"ids": [3]}), manager="a")
    assert fake_api.get("NodePowerProfile", "n")["spec"]["cpu"] == {"ids": [3]}


async def test_labels_of_a_node_can_be_applied_and_removed(fake_api, raw):
    fake_api.put(make_node("n", labels={"theirs": "1"}))
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"ours": "1"}}}
    await raw.apply("/api/v1/nodes/n", body, manager="operator")
    assert fake_api.get("Node", "n")["metadata"]["labels"]["ours"] == "1"
    await raw.apply("/api/v1/nodes/n", {**body, "metadata": {"name": "n"}}, manager="operator")
    labels = fake_api.get("Node", "n")["metadata"]["labels"]
    assert "ours" not in labels
    assert labels["theirs"] == "1"


async def test_an_apply_needs_a_manager_and_the_right_name(raw, make_profile):
    assert (await raw.apply(PATH, make_profile("n"), manager=""))[0] == 422
    assert (await raw.apply(PATH, make_profile("other"), manager="a"))[0] == 400


async def test_put_in_the_name_of_a_manager_gives_it_ownership(fake_api, raw, make_profile):
    fake_api.put(make_profile("n", cpu={"watts": 1}), manager="kubectl")
    status, body = await raw.apply(PATH, make_profile("n", cpu={"watts": 2}), manager="a")
    assert status == 409
    assert "kubectl" in body["message"]
