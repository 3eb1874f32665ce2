import pytest

from joulie_testing.api import make_node, make_pod

PROFILES = "/apis/joulie.io/v1alpha1/nodepowerprofiles"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


async def test_a_created_object_has_identity_generation_and_no_status(fake_api, raw, make_profile):
    status, body = await raw("POST", PROFILES, make_profile("n", cpu={"watts": 1}, phase="x"))
    assert status == 201
    assert body["metadata"]["uid"]
    assert body["metadata"]["creationTimestamp"].endswith("Z")
    assert (body["metadata"]["generation"], body["metadata"]["resourceVersion"]) == (1, "1")
    assert "status" not in body


async def test_creating_twice_is_already_exists(raw, make_profile):
    await raw("POST", PROFILES, make_profile("n"))
    status, body = await raw("POST", PROFILES, make_profile("n"))
    assert (status, body["reason"]) == (409, "AlreadyExists")


async def test_events_get_generated_names(raw):
    event = {"kind": "Event", "apiVersion": "v1", "metadata": {"generateName": "n1."}, "reason": "R"}
    names = {(await raw("POST", "/api/v1/namespaces/default/events", event))[1]["metadata"]["name"] for _ in range(2)}
    assert len(names) == 2
    assert all(name.startswith("n1.") for name in names)


async def test_a_replace_needs_the_current_revision(raw):
    lease = {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": "l"}, "spec": {"a": 1}}
    _, created = await raw("POST", LEASES, lease)
    fresh = {**created, "spec": {"a": 2}}
    assert (await raw("PUT", f"{LEASES}/l", lease))[0] == 422
    assert (await raw("PUT", f"{LEASES}/l", fresh))[0] == 200
    status, body = await raw("PUT", f"{LEASES}/l", {**created, "spec": {"a": 3}})
    assert (status, body["reason"]) == (409, "Conflict")


async def test_a_merge_patch_merges_maps_deletes_nulls_and_replaces_lists(fake_api, raw):
    fake_api.put(make_node("n", labels={"a": "1", "b": "2"}))
    await raw.merge("/api/v1/nodes/n", {"metadata": {"labels": {"a": None, "c": "3"}}, "spec": {"taints": [1]}})
    node = fake_api.get("Node", "n")
    assert {"b": "2", "c": "3"}.items() <= node["metadata"]["labels"].items()
    assert "a" not in node["metadata"]["labels"]
    assert node["spec"]["taints"] == [1]


async def test_a_patch_with_a_stale_revision_is_a_conflict(fake_api, raw):
    fake_api.put(make_node("n"))
    fake_api.put(make_node("n", labels={"x": "y"}))
    status, _ = await raw.merge("/api/v1/nodes/n", {"metadata": {"resourceVersion": "1", "labels": {"z": "1"}}})
    assert status == 409


async def test_strategic_merge_does_not_exist_for_custom_resources(fake_api, raw, make_profile):
    fake_api.put_all([make_node("n"), make_profile("n")])
    strategic = "application/strategic-merge-patch+json"
    labels = {"metadata": {"labels": {"a": "b"}}}
    assert (await raw("PATCH", "/api/v1/nodes/n", labels, content_type=strategic))[0] == 200
    assert (await raw("PATCH", f"{PROFILES}/n", labels, content_type=strategic))[0] == 415


async def test_json_patch_is_refused(fake_api, raw):
    fake_api.put(make_node("n"))
    assert (await raw("PATCH", "/api/v1/nodes/n", {}, content_type="application/json-patch+json"))[0] == 415


async def test_spec_and_status_writes_leave_each_other_alone(fake_api, raw, make_profile):
    fake_api.put(make_profile("n", cpu={"watts": 1}, phase="old"))
    await raw.merge(f"{PROFILES}/n", {"spec": {"cpu": {"watts": 2}}, "status": {"phase": "spoofed"}})
    await raw.merge(f"{PROFILES}/n/status", {"spec": {"cpu": {"watts": 3}}, "status": {"seen": True}})
    stored = fake_api.get("NodePowerProfile", "n")
    assert stored["spec"] == {"cpu": {"watts": 2}}
    assert stored["status"] == {"phase": "old", "seen": True}


async def test_generation_counts_spec_changes_only(fake_api, raw, make_profile):
    fake_api.put(make_profile("n", cpu={"watts": 1}))
    await raw.merge(f"{PROFILES}/n/status", {"status": {"seen": True}})
    await raw.merge(f"{PROFILES}/n", {"metadata": {"labels": {"a": "b"}}})
    assert fake_api.get("NodePowerProfile", "n")["metadata"]["generation"] == 1
    await raw.merge(f"{PROFILES}/n", {"spec": {"cpu": {"watts": 2}}})
    assert fake_api.get("NodePowerProfile", "n")["metadata"]["generation"] == 2


async def test_a_write_that_changes_nothing_makes_no_revision(fake_api, raw):
    fake_api.put(make_node("n", labels={"a": "1"}))
    await raw.merge("/api/v1/nodes/n", {"metadata": {"labels": {"a": "1"}}})
    assert fake_api.resource_version == 1


async def test_identity_cannot_be_changed(fake_api, raw, make_profile):
    before = fake_api.put(make_profile("n"))
    await raw.merge(f"{PROFILES}/n", {"metadata": {"uid": "forged", "creationTimestamp": "1999-01-01T00:00:00Z"}})
    after = fake_api.get("NodePowerProfile", "n")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


async def test_nulls_are_pruned(fake_api, raw, make_profile):
    await raw.apply(f"{PROFILES}/n", make_profile("n", cpu={"watts": 1, "pct": None}), manager="m")
    assert fake_api.get("NodePowerProfile", "n")["spec"] == {"cpu": {"watts": 1}}


async def test_a_deleted_object_is_gone_and_deleting_it_again_is_404(fake_api, raw):
    fake_api.put(make_node("n"))
    assert (await raw("DELETE", "/api/v1/nodes/n"))[0] == 200
    assert (await raw("DELETE", "/api/v1/nodes/n"))[0] == 404


async def test_a_deletion_with_another_uid_is_refused(fake_api, raw):
    fake_api.put(make_node("n"))
    assert (await raw("DELETE", "/api/v1/nodes/n", {"preconditions": {"uid": "other"}}))[0] == 409
    assert fake_api.count("Node") == 1


@pytest.mark.parametrize("path", ["/api/v1/namespaces/default/pods/p/binding", "/api/v1/namespaces/default/bindings"])
async def test_a_binding_puts_a_pod_on_a_node_once(fake_api, raw, path):
    fake_api.put(make_pod("p"))
    binding = {
        "kind": "Binding",
        "apiVersion": "v1",
        "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n"},
    }
    assert (await raw("POST", path, binding))[0] == 201
    assert fake_api.get("Pod", "p")["spec"]["nodeName"] == "n"
    assert (await raw("POST", path, binding))[0] == 409


async def test_a_written_definition_is_established_and_served(fake_api, raw):
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.org"},
        "spec": {
            "group": "example.org",
            "names": {"plural": "widgets", "kind": "Widget"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}],
        },
    }
    widgets = "/apis/example.org/v1/namespaces/default/widgets"
    assert (await raw("GET", widgets))[0] == 404
    _, created = await raw("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    assert created["status"]["conditions"][0]["type"] == "Established"
    assert (await raw("GET", widgets))[1]["kind"] == "WidgetList"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/gadgets", 404),
        ("GET", "/apis/joulie.io/v1alpha1/nodetwins/none", 404),
        ("GET", "/nowhere", 404),
        ("PUT", "/api/v1/nodes", 405),
        ("POST", "/api/v1/nodes", 400),
        ("PUT", "/api/v1/nodes/n/proxy", 404),
    ],
)
async def test_invalid_requests_get_a_status(raw, method, path, status):
    found, body = await raw(method, path, None if method == "GET" else [])
    assert (found, body["kind"], body["code"]) == (status, "Status", status)


async def test_the_log_has_the_writer_of_every_request(fake_api, raw, make_profile):
    await raw("GET", "/api/v1/nodes")
    mark = len(fake_api.requests)
    await raw.apply(f"{PROFILES}/n", make_profile("n", cpu={"watts": 7}), manager="joulie-operator")
    await raw.apply(f"{PROFILES}/n/status", make_profile("n", phase="x"), manager="joulie-agent")
    writes = fake_api.requests.writes(kind="NodePowerProfile", since=mark)
    assert [(w.verb, w.name, w.subresource, w.field_manager, w.status) for w in writes] == [
        ("apply", "n", "", "joulie-operator", 201),
        ("apply", "n", "status", "joulie-agent", 200),
    ]
    assert writes[0].user_agent == "bare/1"
    assert writes[0].json()["spec"] == {"cpu": {"watts": 7}}
    assert fake_api.requests.writes(manager="joulie-agent") == [writes[1]]
