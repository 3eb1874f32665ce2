"""`kill -9` of the processes of an agent's pod at random moments, and what the driver holds the GPUs to afterwards.

Of each kill is asked that every limit which nothing renews ends, and one that a performance pod does not allow, within
the lease; that no value appears which Joulie did not want; that a clock which an administrator holds stays; and that a
limit which has ended for a performance pod does not come back. What is seen is the file of the stub driver alone, and
the actuator's journal.
"""

import asyncio
import time
from collections import defaultdict
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum

from services.agent.tests.class_limits.agent_processes import ACTUATOR, AGENT, HOLDERS, START_HOOK
from services.agent.tests.class_limits.node_site import GPUS
from services.agent.tests.class_limits.stub_gpus import HIGHEST_MHZ
from tests.e2e.waiting import eventually

from joulie_actuator.hardware import journal
from joulie_actuator.hardware.gpu.driver import clock_key
from joulie_actuator.protocol import Subsystem
from joulie_agent.class_limits.enforcement import LEASE_S, LIFTED_WITHIN_S, RENEW_S

#: Of the driver, and of machines that are busy with other tests.
SLACK_S = 3.0
#: Highest clock by the slowdown that the pods allow.
LIMIT_MHZ = round(HIGHEST_MHZ / 1.1)
#: The last GPU belongs to an administrator, who holds it to this clock.
ADMIN, ADMIN_MHZ = GPUS - 1, 1500
#: How long each step takes in which the driver changes a clock.
STEP_US = 500
_SAMPLE_S = 0.003
_WAIT_S = 90.0
#: Which of the processes are killed together: each alone, each pair of those that write and ask, and all.
_VICTIMS = (
    (AGENT,),
    (ACTUATOR,),
    (START_HOOK,),
    (HOLDERS,),
    (AGENT, ACTUATOR),
    (AGENT, START_HOOK),
    (ACTUATOR, START_HOOK),
    (AGENT, ACTUATOR, START_HOOK, HOLDERS),
)


class Phase(StrEnum):
    """Work during which processes are killed."""

    SET = "set"
    LIFT = "lift"
    BETWEEN = "between"


#: Longest time from the first sign of the work to the kill; between, a part of the lease, in which it is renewed once.
_LATEST_S = {Phase.SET: 0.03, Phase.LIFT: 0.06}
_BETWEEN = RENEW_S / LEASE_S


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill."""

    victims: tuple[str, ...]
    phase: Phase
    #: Whether they are started again at once; else when the limits are back, and the actuator after a while.
    restarted: bool
    delay_s: float
    later_s: float
    #: GPUs that are handed over.
    gpus: tuple[int, ...]

    @classmethod
    def rolled(cls, dice, number, lease_s):
        """Return the kill of that number: each eight take each set of victims once."""
        phase = dice.choice(list(Phase))
        return cls(
            _VICTIMS[number % len(_VICTIMS)],
            phase,
            dice.random() < 0.5,
            dice.uniform(0.0, _LATEST_S.get(phase, lease_s * _BETWEEN)),
            dice.uniform(0.0, 1.0),
            tuple(dice.sample([gpu for gpu in range(GPUS) if gpu != ADMIN], dice.randint(1, 4))),
        )

    @property
    def ends_all(self):
        """Whether nothing renews any limit afterwards, or all of them are restored."""
        return bool({AGENT, ACTUATOR} & {*self.victims}) or (HOLDERS in self.victims and not self.restarted)


class Watched:
    """What the driver holds the GPUs to, looked at every few milliseconds."""

    def __init__(self, site):
        self._gpus = site.gpus.gpus
        #: By GPU, how often its limits had ended when it was waited for, and when it was seen to have ended.
        self._ends, self.ended_at = {}, {}
        #: By GPU with a container of a performance pod, whether it has been seen without a limit.
        self.taken = {}
        self.wrong = []

    @asynccontextmanager
    async def running(self):
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def limited(self):
        return [index for index, gpu in enumerate(self._gpus) if gpu.lock_mhz or gpu.manual]

    def wait_for(self, gpus):
        self._ends, self.ended_at = {gpu: self._gpus[gpu].releases for gpu in gpus}, {}

    async def have_ended(self):
        assert self.ended_at.keys() == self._ends.keys(), [each.lock_mhz for each in self._gpus]

    async def _run(self):
        while True:
            self._look(time.monotonic())
            await asyncio.sleep(_SAMPLE_S)

    def _look(self, now):
        for index, gpu in enumerate(self._gpus):
            lock_mhz, ends = gpu.lock_mhz, gpu.releases
            if index in self._ends and ((not lock_mhz and not gpu.manual) or ends != self._ends[index]):
                self.ended_at.setdefault(index, now)
            if lock_mhz not in ({ADMIN_MHZ} if index == ADMIN else {0, LIMIT_MHZ, HIGHEST_MHZ}):
                self.wrong.append(f"GPU {index} is held to {lock_mhz} MHz")
            if index in self.taken and self.taken[index] and lock_mhz == LIMIT_MHZ:
                self.wrong.append(f"the limit of GPU {index} has come back, which a performance pod has")
            if index in self.taken and not lock_mhz:
                self.taken[index] = True


class KillCampaign:
    """Kills at one node."""

    def __init__(self, site, dice):
        self._site, self._dice = site, dice
        self._journal = site.processes.state / Subsystem.GPU
        self._watched = Watched(site)
        self._pods = 0
        #: By victims, the longest times until limits have ended, in seconds.
        self.ended_s = defaultdict(list)
        #: Kills after which the journal had a write that was not recorded as done.
        self.unfinished = 0

    async def run(self, numbers):
        """Kill once for each number.

        Raises:
            AssertionError: something was not as asked, with the kill.
        """
        registering = asyncio.create_task(self._register())
        try:
            async with self._watched.running():
                for number in numbers:
                    kill = Kill.rolled(self._dice, number, self._site.lease_s)
                    try:
                        await self._round(kill)
                        assert self._watched.wrong == [], self._watched.wrong
                    except (AssertionError, TimeoutError) as error:
                        raise AssertionError(f"kill {number}, {kill}: {error}") from error
        finally:
            registering.cancel()
            await asyncio.gather(registering, return_exceptions=True)

    async def _register(self):
        """Let the runtime take each start hook that comes."""
        while True:
            with suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(_WAIT_S):
                    await self._site.runtime.registered()

    async def _round(self, kill):
        await eventually(self._site.are_limited, within_s=_WAIT_S)
        async with self._starts(kill) as start:
            await self._work(kill, start)
            await asyncio.sleep(kill.delay_s)
            running = self._site.processes.running
            for name in kill.victims:
                running[name].kill()
            for name in kill.victims:
                await running[name].wait()
            limited = [gpu for gpu in self._watched.limited() if gpu != ADMIN]
            self.unfinished += any(each.pending is not None for each in journal.peek(self._journal).values())
            if not kill.ends_all and kill.phase is not Phase.LIFT:
                start(kill.gpus)
            self._watched.wait_for(limited if kill.ends_all else [gpu for gpu in kill.gpus if gpu in limited])
            begun_at = await self._restart(kill)
            await eventually(self._watched.have_ended, within_s=self._site.lease_s + SLACK_S)
            took_s = max(self._watched.ended_at.values(), default=begun_at) - begun_at
            self.ended_s[kill.victims].append(max(0.0, took_s))
            if AGENT in kill.victims and not kill.restarted:
                await eventually(self._nothing_is_left, within_s=SLACK_S)
            for name in kill.victims:
                if not running[name].running:
                    await running[name].start()
            if START_HOOK in kill.victims:
                await running[START_HOOK].wait_for_log("plugin registered", _WAIT_S)

    async def _restart(self, kill):
        """Start what is to be running; return from when on the limits are to end."""
        running, begun_at = self._site.processes.running, time.monotonic()
        first = [name for name in kill.victims if kill.restarted and name != ACTUATOR]
        for name in first:
            await running[name].start()
        if ACTUATOR in kill.victims:
            # Nothing else may write to the hardware: the next one restores what is in the journal.
            await asyncio.sleep(0.0 if kill.restarted else kill.later_s)
            begun_at = time.monotonic()
            await running[ACTUATOR].start()
        return begun_at

    async def _nothing_is_left(self):
        assert not journal.peek(self._journal)
        assert self._watched.limited() == [ADMIN]

    async def _work(self, kill, start):
        """Return at the first sign of the work during which processes are to be killed."""
        if kill.phase is Phase.BETWEEN:
            return
        started = start(kill.gpus)
        if kill.phase is Phase.LIFT:
            return
        await asyncio.gather(*started)
        self._watched.wait_for(kill.gpus)
        await eventually(self._watched.have_ended, within_s=_WAIT_S)
        await eventually(lambda: self._are_recorded(kill.gpus), within_s=_WAIT_S)
        self._end_pods()
        path = self._journal / journal.JOURNAL_FILE
        before = path.stat().st_mtime_ns
        async with asyncio.timeout(_WAIT_S):
            while path.stat().st_mtime_ns == before:  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.001)

    async def _are_recorded(self, gpus):
        """The record of an end follows the answer: the next one is then of a limit that is set."""
        assert not journal.peek(self._journal).keys() & {clock_key(f"GPU-{gpu}") for gpu in gpus}

    @asynccontextmanager
    async def _starts(self, kill):
        """Yield what starts performance pods on GPUs; they end with the context."""
        tasks = []

        def start(gpus):
            for gpu in gpus:
                name = f"performance-{self._pods}-{gpu}"
                self._pods += 1
                self._names[gpu] = name
                tasks.append(asyncio.create_task(self._start(name, gpu)))
            return tasks

        self._names = {}
        try:
            yield start
        finally:
            await asyncio.gather(*tasks)
            self._end_pods()

    async def _start(self, name, gpu):
        try:
            await self._site.start(name, gpu)
        except (ConnectionError, TimeoutError):
            # A runtime creates the container where its plugin has gone. Limits are then lifted by polling.
            asyncio.get_running_loop().call_later(LIFTED_WITHIN_S, self._take, name, gpu)
        else:
            self._take(name, gpu)

    def _take(self, name, gpu):
        """From now on no limit comes back; one that was on its way when the pod came may have been set until now."""
        if self._names.get(gpu) == name:
            self._watched.taken[gpu] = False

    def _end_pods(self):
        self._watched.taken.clear()
        for name in self._names.values():
            self._site.remove(name)
        self._names.clear()


def told(campaigns, lease_s=LEASE_S):
    """Return the figures of campaigns as lines."""
    found = defaultdict(list)
    for campaign in campaigns:
        for victims, took_s in campaign.ended_s.items():
            found[victims] += took_s
    lines = [
        f"  {' and '.join(victims)}: {len(took_s)} kills, at most {max(took_s):.2f} s"
        for victims, took_s in found.items()
    ]
    kills, longest_s = sum(map(len, found.values())), max(max(each) for each in found.values())
    unfinished = sum(each.unfinished for each in campaigns)
    head = (
        f"{kills} kills, {unfinished} of them during a write; "
        f"limits ended within {longest_s:.2f} s, the lease is {lease_s:g} s"
    )
    return "\n".join([head, *lines])
