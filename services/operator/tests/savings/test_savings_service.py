"""The operator on an API server estimates what it saves, with the permissions that it has."""

import json

from joulie_api.savings import read_ledger
from joulie_testing.api import make_node

_NODES = [make_node(f"node-{index}", cpu_model="AMD EPYC 7763", cpu_sockets=2, cpu=256) for index in range(4)]


async def test_an_operator_writes_the_ledger_where_that_is_enabled(cluster):
    cluster.api.put_all(_NODES)
    cluster.start(SAVINGS_ENABLED="true")
    await cluster.until(lambda: cluster.api.get("ConfigMap", "joulie-savings", "joulie-system") is not None)
    found = cluster.api.get("ConfigMap", "joulie-savings", "joulie-system")
    ledger = read_ledger(json.dumps(found).encode())
    assert ledger.begun_s == ledger.until_s
