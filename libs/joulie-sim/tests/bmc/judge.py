"""Run DMTF's protocol validator: `judge.py ADDRESS CA`. Prints the assertions that fail, and how many checks passed.

A process of its own, since the validator leaves its connections open.
"""

import json
import sys

from redfish_protocol_validator import console_scripts, resources, sessions, utils
from redfish_protocol_validator.constants import Result
from redfish_protocol_validator.system_under_test import SystemUnderTest


def main(address, ca):
    # It would ask the whole network for services.
    utils.discover_ssdp = lambda **_: {}
    judged = SystemUnderTest(address, "root", "calvin", verify=ca)
    # There is no HTTP beside HTTPS.
    judged.set_avoid_http_redirect(True)
    judged.login()
    anonymous = sessions.no_auth_session(judged)
    resources.read_target_resources(judged, func=resources.get_default_resources)
    resources.read_uris_no_auth(judged, anonymous)
    resources.data_modification_requests(judged)
    resources.data_modification_requests_no_auth(judged, anonymous)
    resources.unsupported_requests(judged)
    resources.basic_auth_requests(judged)
    resources.http_requests(judged)
    resources.bad_auth_requests(judged)
    sessions.bad_login(judged)
    console_scripts.perform_tests(judged)
    judged.logout()
    failed = {
        assertion.name: [entry["msg"] for entry in entries if entry["result"] is Result.FAIL]
        for assertion, entries in judged.results.items()
    }
    counts = {result.name: judged.summary_count(result) for result in Result}
    print(json.dumps({"counts": counts, "failed": {name: found for name, found in failed.items() if found}}))


if __name__ == "__main__":
    main(*sys.argv[1:])
