"""Business logic that this project did not write: the client `openadr3` from PyPI publishes events at a VTN.

Runs in an environment of its own: URL of the VTN, then a command: `publish` with watts, start and duration, `change`
with an id and watts, or `delete` with an id. Prints the id of the event, and what the client makes of the events.
"""

import json
import sys

import openadr3

DESCRIPTOR = {"objectType": "EVENT_PAYLOAD_DESCRIPTOR", "payloadType": "IMPORT_CAPACITY_LIMIT", "units": "KW"}


def main(url, command, *arguments):
    with openadr3.create_bl_client(url, "") as client:
        token = client.fetch_token("bl-id", "bl-secret")
    with openadr3.create_bl_client(url, token) as client:
        # Not `find_program_by_name`, whose query parameters are those of OpenADR 3.0.
        program = next(each for each in client.programs() if each.program_name == "dispatch")
        if command == "delete":
            answer = client.delete_event(arguments[0])
        elif command == "change":
            answer = client.update_event(arguments[0], event(program.id, *arguments[1:]))
        else:
            answer = client.create_event(event(program.id, *arguments))
        assert openadr3.success(answer), answer.text
        print(json.dumps({"id": openadr3.body(answer)["id"], "events": len(client.events(programID=program.id))}))


def event(program, kilowatts, start, duration):
    payload = {"type": "IMPORT_CAPACITY_LIMIT", "values": [float(kilowatts)]}
    return {
        "programID": program,
        "eventName": "cut",
        "payloadDescriptors": [DESCRIPTOR],
        "intervalPeriod": {"start": start, "duration": duration},
        "intervals": [{"id": 0, "payloads": [payload]}],
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
