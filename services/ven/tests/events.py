"""Bodies of OpenADR events."""

from joulie_core.timestamps import rfc3339

KW = [{"objectType": "EVENT_PAYLOAD_DESCRIPTOR", "payloadType": "IMPORT_CAPACITY_LIMIT", "units": "KW"}]
SUBSCRIBED = [{**KW[0], "payloadType": "IMPORT_CAPACITY_SUBSCRIPTION"}]
HOUR = 3600.0


def interval(value, kind="IMPORT_CAPACITY_LIMIT", *, number=0, start=None, duration=None, **period):
    """One interval; `start` is seconds since the epoch, or text."""
    own = dict(period)
    if start is not None:
        own["start"] = start if isinstance(start, str) else rfc3339(start, "seconds")
    if duration is not None:
        own["duration"] = duration
    found = {"id": number, "payloads": [{"type": kind, "values": [value]}]}
    return found | ({"intervalPeriod": own} if own else {})


def capacity(value, start, duration="PT1H", **fields):
    """An event with one limit of the site in kilowatts."""
    only = interval(value, start=start, duration=duration)
    return {"payloadDescriptors": KW, "intervals": [only], **fields}


def subscription(value, start="2023-02-10T00:00:00Z", duration="P9999Y"):
    """An event with the subscribed capacity in kilowatts."""
    only = interval(value, "IMPORT_CAPACITY_SUBSCRIPTION", start=start, duration=duration)
    return {"payloadDescriptors": SUBSCRIBED, "intervals": [only]}


def simple(level, start, duration="PT1H"):
    """An event of a level."""
    return {"intervals": [interval(level, "SIMPLE", start=start, duration=duration)]}
