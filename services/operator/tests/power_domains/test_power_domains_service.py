"""The operator on an API server observes power domains, with the permissions that it has."""

from joulie_api import optional_watch
from joulie_operator.power_domains import controller
from joulie_testing.api import Respond, make_node, make_node_power_budget, make_power_domain, make_power_event

_NODES = [
    *(make_node(f"node-{index}", cpu_model="AMD EPYC 7763", cpu_sockets=2, cpu=256) for index in range(2)),
    make_node("other", managed=False),
]
_RACK = make_power_domain("rack", nodeSelector={"kubernetes.io/hostname": "other"})


def status(cluster, name):
    return cluster.api.get("PowerDomain", name).get("status", {})


def planned(cluster):
    return all(cluster.view(f"node-{index}") for index in range(2))


async def test_domains_are_observed_where_that_is_enabled_with_nodes_that_are_not_managed(cluster):
    cluster.api.put_all(_NODES)
    cluster.api.put(_RACK)
    operator = cluster.start(POWER_DOMAINS="Observe")
    await cluster.until(lambda: status(cluster, "rack"))
    found = status(cluster, "rack")
    assert (found["mode"], found["nodes"], found["unknownNodes"]) == ("Observe", 1, 1)
    assert "inForceWatts" not in found
    metrics = await operator.metrics()
    assert 'joulie_operator_power_domain_nodes{domain="rack",state="power_unknown"} 1.0' in metrics
    assert "joulie_operator_power_domain_in_force_watts{" not in metrics


async def test_domains_are_neither_read_nor_written_by_default(cluster):
    cluster.api.put_all(_NODES)
    cluster.api.put(_RACK)
    cluster.start()
    await cluster.until(lambda: planned(cluster))
    assert [each for each in cluster.api.requests if each.kind == "PowerDomain"] == []


async def test_limits_that_are_left_are_withdrawn_by_default(cluster):
    cluster.api.put_all(_NODES)
    cluster.api.put(make_power_domain("rack", mode="Enforce", nodeSelector={"kubernetes.io/hostname": "other"}))
    cluster.api.put(make_node_power_budget("other"))
    cluster.start()
    await cluster.until(lambda: cluster.api.get("NodePowerBudget", "other") is None)


async def test_limits_are_kept_while_domains_are_not_known(cluster, monkeypatch):
    monkeypatch.setattr(controller, "STALE_INTERVAL_S", 0.01)
    cluster.api.put_all(_NODES)
    cluster.api.put(make_node_power_budget("other"))
    cluster.api.faults.add(Respond(500), verb="list", path="/powerdomains", times=None)
    cluster.start(POWER_DOMAINS="Observe")
    await cluster.until(lambda: planned(cluster))
    await cluster.until(lambda: sum(each.kind == "PowerDomain" for each in cluster.api.requests) > 1)
    assert cluster.api.get("NodePowerBudget", "other") is not None


async def test_all_else_goes_on_where_the_kind_is_not_installed_and_it_is_followed_later(cluster, monkeypatch):
    monkeypatch.setattr(controller, "STALE_INTERVAL_S", 0.01)
    cluster.api.put_all(_NODES)
    cluster.api.put(_RACK)
    cluster.api.faults.add(Respond(404), verb="list", path="/powerdomains", times=None)
    operator = cluster.start(POWER_DOMAINS="Observe")
    await cluster.until(lambda: planned(cluster))
    assert operator.app.health.readiness().ok
    assert status(cluster, "rack") == {}
    cluster.api.faults.clear()
    await cluster.until(lambda: status(cluster, "rack"))


async def test_nodes_are_limited_where_that_is_enabled_and_changes_are_followed_at_once(cluster, monkeypatch):
    monkeypatch.setattr(controller, "STALE_INTERVAL_S", 0.01)
    monkeypatch.setattr(controller, "INTERVAL_S", 600.0)
    cluster.api.put_all(_NODES)
    rack = {"nodeSelector": {"kubernetes.io/hostname": "other"}}
    cluster.api.put(make_power_domain("rack", mode="Enforce", **rack))
    operator = cluster.start(POWER_DOMAINS="Enforce")
    await cluster.until(lambda: cluster.api.get("NodePowerBudget", "other"))
    spec = cluster.api.get("NodePowerBudget", "other")["spec"]
    assert (spec["term"], spec["sequence"], spec["powerDomain"]) == (0, 1, "rack")
    # Nothing is known of its power: it cannot be lowered.
    assert "limitWatts" not in spec
    await cluster.until(lambda: status(cluster, "rack").get("unconfirmedNodes") == 1)
    metrics = await operator.metrics()
    assert 'joulie_operator_power_domain_enforced{domain="rack"} 1.0' in metrics
    # Only reports of nodes wait for others.
    monkeypatch.setattr(controller, "DEBOUNCE_S", 600.0)
    cluster.api.put(make_power_domain("rack", mode="Observe", **rack))
    await cluster.until(lambda: cluster.api.get("NodePowerBudget", "other") is None)


async def test_domains_are_observed_where_the_kind_of_events_is_not_installed(cluster):
    cluster.api.put_all(_NODES)
    cluster.api.put(_RACK)
    cluster.api.faults.add(Respond(404), verb="list", path="/powerevents", times=None)
    operator = cluster.start(POWER_DOMAINS="Observe")
    await cluster.until(lambda: status(cluster, "rack"))
    assert operator.app.health.readiness().ok


async def test_nothing_is_decided_where_events_may_not_be_read(cluster, monkeypatch):
    monkeypatch.setattr(controller, "STALE_INTERVAL_S", 0.01)
    monkeypatch.setattr(optional_watch, "_RETRY_S", 0.01)
    cluster.api.put_all(_NODES)
    cluster.api.put(_RACK)
    cluster.api.faults.add(Respond(403), verb="list", path="/powerevents", times=None)
    cluster.start(POWER_DOMAINS="Observe")
    await cluster.until(lambda: planned(cluster))
    await cluster.until(lambda: sum(each.kind == "PowerEvent" for each in cluster.api.requests) > 3)
    assert status(cluster, "rack") == {}
    cluster.api.faults.clear()
    await cluster.until(lambda: status(cluster, "rack"))


async def test_an_event_is_looked_at_at_once_and_has_its_series(cluster, monkeypatch):
    monkeypatch.setattr(controller, "INTERVAL_S", 600.0)
    cluster.api.put_all(_NODES)
    cluster.api.put(_RACK)
    operator = cluster.start(POWER_DOMAINS="Enforce")
    await cluster.until(lambda: status(cluster, "rack"))
    monkeypatch.setattr(controller, "DEBOUNCE_S", 600.0)
    cluster.api.put(make_power_event("cut", domain="rack"))
    await cluster.until(lambda: cluster.api.get("PowerEvent", "cut").get("status"))
    found = cluster.api.get("PowerEvent", "cut")["status"]
    assert found["state"] == "Active"
    accepted = {each["type"]: each["reason"] for each in found["conditions"]}
    assert accepted == {"Accepted": "DomainNotEnforced", "Active": "DomainNotEnforced"}
    metrics = await operator.metrics()
    assert 'joulie_operator_power_events{state="Active"} 1.0' in metrics
    assert 'joulie_operator_power_event_accepted{domain="rack",event="cut"} 0.0' in metrics
    assert "joulie_operator_power_events_unreadable 0.0" in metrics
