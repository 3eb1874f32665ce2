import json

from joulie_testing.api import make_telemetry_profile
from joulie_testing.cli import ago, words


def device(index=0, held_as="standard", reason="AllStandard", *, holders=(("train", "standard"),), **more):
    listed = [
        {"namespace": "ml", "pod": pod, "container": "main", "workloadClass": workload_class}
        for pod, workload_class in holders
    ]
    return {
        "uuid": f"GPU-{index}",
        "index": index,
        "heldAs": held_as,
        "reason": reason,
        "holders": listed,
        "holderCount": len(listed),
        **more,
    }


async def test_each_gpu_is_shown_with_its_holders_and_the_reason(fake_api, cli):
    shared = device(1, "performance", "PerformancePod", holders=(("a", "standard"), ("b", "performance")), watts=301.0)
    free = device(2, "free", "NoPod", holders=())
    fake_api.put(
        make_telemetry_profile("n1", devices=[device(watts=287.5), shared, free], power={"updatedAt": ago(7300)})
    )

    result = await cli("devices", "n1")

    assert result.code == 0
    assert words(result.out)[1:5] == [
        ["0", "standard", "288", "AllStandard", "ml/train", "main,", "standard"],
        ["1", "performance", "301", "PerformancePod", "ml/a", "main,", "standard"],
        ["ml/b", "main,", "performance"],
        ["2", "free", "-", "NoPod", "-"],
    ]
    assert "Watts were read 2h" in result.out


async def test_a_reason_with_details_and_holders_that_are_not_listed_are_said(fake_api, cli):
    crowded = device(0, "unknown", "NotListed", message="pod ml/init requests GPUs") | {"holderCount": 12}
    fake_api.put(make_telemetry_profile("n1", devices=[crowded]))

    result = await cli("devices", "n1")

    assert "and 11 more" in result.out
    assert "GPU 0: pod ml/init requests GPUs" in result.out
    assert "Watts were read" not in result.out


async def test_devices_are_also_data(fake_api, cli):
    fake_api.put(make_telemetry_profile("n1", devices=[device()]))

    data = json.loads((await cli("devices", "n1", "-o", "json")).out)

    assert data[0]["heldAs"] == "standard"
    assert data[0]["holders"][0]["pod"] == "train"


async def test_a_node_without_gpus_has_none(fake_api, cli):
    fake_api.put(make_telemetry_profile("n1", devices=[]))

    assert "knows no GPU" in (await cli("devices", "n1")).out


async def test_an_agent_that_does_not_follow_holders_is_explained(fake_api, cli):
    fake_api.put(make_telemetry_profile("n1"))

    result = await cli("devices", "n1")

    assert result.code == 3
    assert "agent.holders.enabled" in result.err


async def test_a_node_without_a_report_is_explained(fake_api, cli):
    result = await cli("devices", "nix")

    assert result.code == 3
    assert "node 'nix' has no report" in result.err


def limit(reason="ClockLimited", now=None, **more):
    return {"reason": reason, "now": {"clockBound": "none", "limited": False, **(now or {})}, **more}


def limited(now):
    return limit(clockMhz=1282, allowedSlowdown="10%", now=now)


async def test_the_limit_that_each_gpu_would_have_is_shown_with_what_it_would_change(fake_api, cli):
    bands = {"savedWatts": {"lower": 24.4, "upper": 61.7}, "slowdownPct": {"lower": 0, "upper": 10}}
    zero = {"savedWatts": {"lower": 0, "upper": 0}, "slowdownPct": {"lower": 0, "upper": 0}, "clockBound": "idle"}
    unstated = {"savedReason": "ModelNotSwept", "slowdownReason": "NotMeasured", "limited": None, "clockBound": ""}
    capped = {"limited": True, "limitWatts": 210.0, "clockBound": "power-limit"}
    fake_api.put(
        make_telemetry_profile(
            "n1",
            devices=[
                device(0, classLimit=limited(bands)),
                device(1, classLimit=limited(zero)),
                device(2, classLimit=limited(unstated)),
                device(3, classLimit=limit("HeldClockUnknown", now=capped)),
                device(4, classLimit=limit("PowerLimited", watts=225.0)),
                device(5),
            ],
        )
    )

    out = (await cli("devices", "n1")).out

    shown = words(out.partition("shown and not set:")[2])[2:]
    assert shown[:5] == [
        ["0", "none", "1282", "MHz", "24", "to", "62", "0", "to", "10", "none", "ClockLimited"],
        ["1", "none", "1282", "MHz", "0", "0", "idle", "ClockLimited"],
        ["2", "unknown", "1282", "MHz", "ModelNotSwept", "NotMeasured", "unknown", "ClockLimited"],
        ["3", "210", "W", "none", "-", "-", "power-limit", "HeldClockUnknown"],
        ["4", "none", "225", "W", "unknown", "unknown", "none", "PowerLimited"],
    ]


async def test_why_an_annotation_was_not_taken_is_shown(fake_api, cli):
    message = "pod ml/train: the Namespace was not seen"
    fake_api.put(make_telemetry_profile("n1", devices=[device(classLimit=limit("NoSlowdownAllowed", message=message))]))
    assert f"GPU 0: {message}" in (await cli("devices", "n1")).out


async def test_without_limits_there_is_no_word_of_them(fake_api, cli):
    fake_api.put(make_telemetry_profile("n1", devices=[device()]))
    assert "not set" not in (await cli("devices", "n1")).out


async def test_limits_that_are_set_are_shown_as_such_with_what_polling_promises(fake_api, cli):
    def enforced(reason, limit_mhz=None, message=""):
        polling = {"liftedBy": "Polling", "liftedWithinSeconds": 6}
        return {"reason": reason, "limitMhz": limit_mhz, "message": message, **polling}

    stuck = "GPU GPU-1 is still limited to 1800 MHz, held by pod ml/serve: insufficient permissions"
    fake_api.put(
        make_telemetry_profile(
            "n1",
            devices=[
                device(
                    0, classLimit=limited({"limited": True, "limitMhz": 1282}) | {"enforced": enforced("Set", 1282)}
                ),
                device(1, classLimit=limit("NoSlowdownAllowed", enforced=enforced("NotLifted", 1800, stuck))),
                device(2, classLimit=limited({}) | {"enforced": enforced("NoConsent")}),
                device(3, classLimit=limited({})),
            ],
        )
    )

    out = (await cli("devices", "n1")).out

    shown = words(out.partition("Limits by the class of the holders, enforced:")[2])[2:6]
    assert [row[:6] for row in shown] == [
        ["0", "Set,", "1282", "MHz", "1282", "MHz"],
        ["1", "NotLifted,", "1800", "MHz", "none", "none"],
        ["2", "NoConsent", "none", "1282", "MHz", "unknown"],
        ["3", "unknown", "none", "1282", "MHz", "unknown"],
    ]
    assert stuck in out.replace("\n      ", " ").replace("\n  ", " ")
    assert "a pod that did not consent may run limited for 6 s." in out


async def test_limits_that_are_lifted_before_a_container_starts_are_shown_as_such(fake_api, cli):
    waits = {"reason": "Set", "limitMhz": 1282, "liftedBy": "BeforeStart", "liftedWithinSeconds": 0.5}
    fake_api.put(make_telemetry_profile("n1", devices=[device(classLimit=limited({}) | {"enforced": waits})]))

    shown = " ".join((await cli("devices", "n1")).out.split())

    assert "They are lifted before a container starts, which waits 0.5 s at most" in shown
    assert "polling" not in shown
