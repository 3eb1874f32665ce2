"""After any faults of a server, the reflector's objects equal the server's once it answers again."""

import json
from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from joulie_api.errors import (
    Forbidden,
    Gone,
    IdleTimeoutError,
    ServerError,
    StreamBrokenError,
    TooManyRequests,
    TransportError,
    Unauthorized,
)
from joulie_api.reflector.event import read_event, read_page
from joulie_api.reflector.machine import Listing, ReflectorMachine, Watching

NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
PAGE = 2
BAD = "bad"


@dataclass(frozen=True)
class Event:
    version: int
    kind: str
    name: str
    value: object

    def line(self):
        return json.dumps({"type": self.kind, "object": encode(self.name, self.version, self.value)}).encode()


def encode(name, version, value):
    return {"metadata": {"name": name, "resourceVersion": str(version)}, "value": value}


def decode(raw):
    value = json.loads(raw)["value"]
    if value == BAD:
        raise ValueError("bad value")
    return value


class ReflectorUnderFaults(RuleBasedStateMachine):
    @initialize(chance=st.floats(0, 0.99))
    def begin(self, chance):
        self.now = 0.0
        self.version = 1
        self.server = {}
        self.history = []
        self.compacted = 0
        #: What a subscriber knows from changes alone.
        self.told = {}
        self.machine = ReflectorMachine(decode, name="test", chance=lambda: chance)
        self.request = self.machine.start()
        self.snapshots = {}
        #: Version up to which the open watch has been served; None while none is open.
        self.cursor = None

    # ------------------------------------------------------------ the server's side

    @rule(name=NAMES, value=st.one_of(st.integers(0, 5), st.just(BAD)))
    def write(self, name, value):
        self.version += 1
        kind = "MODIFIED" if name in self.server else "ADDED"
        self.server[name] = (self.version, value)
        self.history.append(Event(self.version, kind, name, value))

    @rule(name=NAMES)
    def delete(self, name):
        if name in self.server:
            self.version += 1
            _, value = self.server.pop(name)
            self.history.append(Event(self.version, "DELETED", name, value))

    @rule()
    def forget_history(self):
        self.compacted = self.version

    @rule(seconds=st.floats(0, 200))
    def let_time_pass(self, seconds):
        self.now += seconds

    # ------------------------------------------------------------ answers, good and bad

    def listing(self):
        return isinstance(self.request, Listing)

    def opened(self):
        return self.cursor is not None

    def unopened(self):
        return isinstance(self.request, Watching) and self.cursor is None

    def follow(self, request):
        assert request is not None
        assert request.delay_s <= 60
        self.now += request.delay_s
        self.request = request
        self.cursor = None

    def deliver(self, step):
        for change in step.changes:
            assert self.told.get(change.key) == change.old
            if change.new is None:
                assert change.old is not None
                del self.told[change.key]
            else:
                self.told[change.key] = change.new
        if step.request is not None:
            self.follow(step.request)

    @precondition(listing)
    @rule(snapshot=st.booleans())
    def answer_page(self, snapshot):
        after, version, content = self.snapshots.get(self.request.continue_token, ("", self.version, self.server))
        if not snapshot:
            version, content = self.version, self.server  # a server that pages over its present state
        names = [name for name in sorted(content) if name > after]
        chosen = names[:PAGE]
        following = ""
        if names[PAGE:]:
            following = f"t{len(self.snapshots)}"
            self.snapshots[following] = (chosen[-1], version, dict(content))
        items = [encode(name, *content[name]) for name in chosen]
        metadata = {"resourceVersion": str(version), "continue": following}
        raw = json.dumps({"metadata": metadata, "items": items}).encode()
        self.deliver(self.machine.on_list_page(read_page(raw), self.now))

    @precondition(unopened)
    @rule()
    def open_watch(self):
        version = int(self.request.resource_version)
        if version < self.compacted:
            self.follow(self.machine.on_failure(Gone(410, "Expired", "too old"), self.now))
            return
        self.machine.on_watch_open(self.now)
        self.cursor = version

    @precondition(opened)
    @rule()
    def send_event(self):
        pending = [event for event in self.history if event.version > self.cursor]
        if pending:
            self.cursor = pending[0].version
            self.deliver(self.machine.on_event(read_event(pending[0].line()), self.now))

    @precondition(opened)
    @rule()
    def send_bookmark(self):
        if all(event.version <= self.cursor for event in self.history):
            self.cursor = self.version
            line = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self.version)}}}
            self.deliver(self.machine.on_event(read_event(json.dumps(line).encode()), self.now))

    @precondition(opened)
    @rule(
        line=st.sampled_from(
            [
                b"Too Many Requests",
                b'{"type":"ERROR","object":{"code":410}}',
                b'{"type":"ERROR","object":{"code":500}}',
                b'{"type":"ADDED","object":{}}',
                b'{"type":"NOVEL","object":{}}',
            ]
        )
    )
    def send_nonsense(self, line):
        self.deliver(self.machine.on_event(read_event(line), self.now))

    @precondition(opened)
    @rule()
    def end_watch(self):
        self.follow(self.machine.on_end(self.now))

    @precondition(opened)
    @rule(error=st.sampled_from([IdleTimeoutError("no data"), StreamBrokenError("reset")]))
    def break_watch(self, error):
        self.follow(self.machine.on_failure(error, self.now))

    @precondition(lambda self: not self.opened())
    @rule(
        error=st.sampled_from(
            [
                Unauthorized(401, "Unauthorized", "no"),
                Forbidden(403, "Forbidden", "no"),
                Gone(410, "Expired", "too old"),
                TooManyRequests(429, "", "slow", 1.0),
                ServerError(503, "", "away"),
                TransportError("refused"),
            ]
        )
    )
    def refuse(self, error):
        self.follow(self.machine.on_failure(error, self.now))

    # ------------------------------------------------------------ what must hold

    @invariant()
    def consistent(self):
        self.machine.check()
        assert self.told == self.machine.objects

    @rule()
    def behave_until_quiet(self):
        for _ in range(100):
            if self.listing():
                self.answer_page(snapshot=True)
            elif self.unopened():
                self.open_watch()
            elif any(event.version > self.cursor for event in self.history):
                self.send_event()
            else:
                break
        else:
            raise AssertionError("the reflector does not settle")
        good = {name: value for name, (_, value) in self.server.items() if value != BAD}
        bad = self.server.keys() - good.keys()
        assert {name: value for name, value in self.machine.objects.items() if name not in bad} == good
        assert self.machine.objects.keys() <= self.server.keys()
        assert {name: str(version) for name, (version, _) in self.server.items()} == self.machine.versions

    def teardown(self):
        if hasattr(self, "machine"):
            self.behave_until_quiet()


ReflectorUnderFaults.TestCase.settings = settings(max_examples=200, stateful_step_count=60, deadline=None)
TestReflectorUnderFaults = ReflectorUnderFaults.TestCase
