"""The judge of a simulation: sees every call and every run, and says which promise was broken."""

from collections import defaultdict
from typing import Any

from headrace.model.claim import Claim, ClaimRequest, Claims, Lease, Settlement
from headrace.model.errors import HeadraceError
from headrace.model.outcome import Done
from headrace.model.results import Cancellation, Enqueued, Extended, Settled, Turned
from tests.simulation.history import Delivery, Key, Life, Run, Trace
from tests.simulation.loop import Process, VirtualLoop
from tests.simulation.network import SkewedClock
from tests.simulation.render import brief
from tests.simulation.rules import BOUND_S, is_forgotten, is_unheard, settlements_of, wrong_outcome, wrong_stops


class Checker:
    """Follows leases from the answers alone, so that it knows which settlement must be accepted."""

    def __init__(self, loop: VirtualLoop, trace: Trace) -> None:
        self.loop = loop
        self.trace = trace
        self.clock = SkewedClock(loop)  # replaced by the server's own
        self.violations: list[str] = []
        self.lives: dict[Process, Life] = {}
        self.held: dict[Key, Delivery] = {}
        self.deliveries: dict[tuple[Key, int], Delivery] = {}
        self.starts: dict[Key, int] = defaultdict(int)
        self.statuses: dict[Key, list[str]] = defaultdict(list)
        """What the store answered to enqueues of an id, in order."""
        self.results: dict[Key, list[Any]] = defaultdict(list)
        self.removed: set[Key] = set()
        self.latest_ms = 0
        """The latest time that the store's clock has shown."""
        self.jumps: list[float] = []
        """When the store's clock jumped."""
        self._unheard: set[str] = set()
        """Nonces of claims that were not answered at first."""
        self._running: dict[Key, list[Run]] = defaultdict(list)
        self._last_fence: dict[Key, int] = {}

    def violate(self, sentence: str) -> None:
        """A promise was broken."""
        self.trace.add("VIOLATION", sentence)
        self.violations.append(f"{sentence} (at {self.loop.time():.3f} s)")

    # What the store does and what it says.

    def applied(self, sender: Process, verb: str, given: Any, answer: Any, sent_at: float) -> None:
        """The store has done what a process asked for."""
        now_ms = self.clock.now_ms()
        self.latest_ms = max(self.latest_ms, now_ms)
        if self.trace.is_on:
            self.trace.add(sender, f"{verb} {brief(given)} -> {brief(answer)}")
        if isinstance(answer, HeadraceError):
            return
        life = self.lives[sender]
        match verb:
            case "claim":
                self._claimed(life, answer.items, given, now_ms, sent_at)
            case "turn":
                self._settled(given[0], answer.settled, now_ms)
                self._claimed(life, answer.claimed, given[1], now_ms, sent_at)
            case "settle":
                self._settled(given, answer, now_ms)
            case "extend":
                self._extended(given, answer, now_ms)
            case "enqueue":
                self._enqueued(given, answer)
            case "cancel":
                self._asked(given, answer)
            case "remove":
                for queue, id in given:
                    self.held.pop((queue.full_name, id), None)
                    self.removed.add((queue.full_name, id))

    def sent(self, verb: str, given: Any) -> None:
        """A process asks for something."""
        for settlement in settlements_of(verb, given):
            self._delivery_of(settlement).flights += 1

    def _delivery_of(self, settlement: Settlement) -> Delivery:
        lease = settlement.lease
        return self.deliveries[(lease.queue.full_name, lease.id), lease.fence]

    def answered(self, sender: Process, verb: str, given: Any, answer: Any, sent_at: float) -> None:
        """A process hears what became of its call."""
        if self.trace.is_on:
            self.trace.add(sender, f"  hears of {verb}: {brief(answer)}")
        if isinstance(answer, Claims):
            self._told(answer.items, given.nonce, sent_at)
        elif isinstance(answer, Turned):
            self._told(answer.claimed, given[1].nonce, sent_at)
        elif verb in ("claim", "turn"):
            self._unheard.add((given if verb == "claim" else given[1]).nonce)
        for settlement in settlements_of(verb, given):
            delivery = self._delivery_of(settlement)
            delivery.flights, delivery.landed_at = delivery.flights - 1, self.loop.time()
        if verb in ("turn", "settle"):
            self._heard_of(settlements_of(verb, given), answer)
        if verb in ("claim", "turn", "settle") and not isinstance(answer, HeadraceError):
            self._check_forgotten(self.lives[sender], sent_at)
        if verb == "extend":
            self._heard_extended(given, answer, sent_at)

    def _heard_extended(self, leases: list[Lease], answer: Any, sent_at: float) -> None:
        now, answers = self.loop.time(), answer
        if not isinstance(answer, list):
            # Answered in part: an id that was sent for two queues is certain for neither.
            by_id = {each.id: each for each in getattr(answer, "known", ())}
            is_certain = len({lease.id for lease in leases}) == len(leases)
            answers = [by_id.get(lease.id) if is_certain else None for lease in leases]
        for lease, each in zip(leases, answers, strict=True):
            delivery = self.deliveries[(lease.queue.full_name, lease.id), lease.fence]
            if each is None:
                continue
            if not each.ok and delivery.refused_at is None:
                delivery.refused_at = now
            if each.ok:
                delivery.believed_until = sent_at + delivery.lease_s
            if each.cancel_asked and delivery.asked_heard_at is None:
                delivery.asked_heard_at = now

    def _told(self, claims: list[Claim], nonce: str, sent_at: float) -> None:
        for claim in claims:
            delivery = self.deliveries[(claim.lease.queue.full_name, claim.record.id), claim.lease.fence]
            if delivery.told_at is None:
                delivery.told_at = self.loop.time()
            if nonce not in self._unheard:
                delivery.believed_until = sent_at + delivery.lease_s

    def _heard_of(self, settlements: list[Settlement], answer: Any) -> None:
        """What was answered, accepted or refused, need not be sent again."""
        known = {getattr(each, "id", None) for each in getattr(answer, "known", ())}
        for settlement in settlements:
            if not isinstance(answer, HeadraceError) or settlement.lease.id in known:
                self._delivery_of(settlement).believed_until = None

    def _check_unheard(self, life: Life, nonce: str, now_ms: int) -> None:
        for delivery in self.held.values():
            if delivery.life is life and is_unheard(delivery, nonce, self.loop.time(), now_ms):
                delivery.told_at = self.loop.time()  # said once
                self.violate(f"{delivery} was claimed, its answer got lost, and its worker went on to the next claim")

    def _check_forgotten(self, life: Life, sent_at: float) -> None:
        for delivery in self.held.values():
            if delivery.life is life and is_forgotten(delivery, sent_at):
                delivery.believed_until = None  # said once
                self.violate(f"{delivery} has ended and its worker has forgotten to settle it")

    def _enqueued(self, jobs: Any, answers: list[Enqueued]) -> None:
        for job, answer in zip(jobs, answers, strict=True):
            self.statuses[job.queue.full_name, job.id].append(answer.status)

    def _claimed(self, life: Life, claims: list[Claim], request: ClaimRequest, now_ms: int, sent_at: float) -> None:
        self._check_unheard(life, request.nonce, now_ms)
        for claim in claims:
            lease, record = claim.lease, claim.record
            key = (lease.queue.full_name, record.id)
            held = self.held.get(key)
            if held is not None and held.claim.lease.token == lease.token:
                if held.life is not life:
                    self.violate(f"{held} was handed to {life.process} as well")
                continue  # the answer had got lost and was asked for again
            delivery = Delivery(key, claim, life, self.loop.time(), sent_at, request.lease_ms / 1000)
            if held is not None and now_ms < held.expires_ms:
                self.violate(f"two valid leases at once: {held} and {delivery}")
            if lease.fence <= self._last_fence.get(key, 0):
                self.violate(f"the fence of {delivery} does not grow")
            if record.run_at_ms > self.latest_ms:
                self.violate(f"{delivery} was handed out {record.run_at_ms - now_ms} ms early")
            if record.attempts >= (record.policy.max_attempts or 10) or record.stalls >= (
                record.policy.max_stalls or 3
            ):
                self.violate(f"{delivery} is beyond its budget: {record.attempts} attempts, {record.stalls} stalls")
            self._last_fence[key] = lease.fence
            self.held[key] = self.deliveries[key, lease.fence] = delivery

    def _holder(self, key: Key, token: str, now_ms: int, accepted: bool, verb: str) -> Delivery | None:
        held = self.held.get(key)
        holds = held is not None and held.claim.lease.token == token and now_ms < held.expires_ms
        if accepted != holds:
            self.violate(f"{verb} of {key} by {token} was {'accepted without' if accepted else 'refused with'} a lease")
        return held if holds and accepted else None

    def _extended(self, leases: Any, answers: list[Extended], now_ms: int) -> None:
        for lease, answer in zip(leases, answers, strict=True):
            delivery = self._holder((lease.queue.full_name, lease.id), lease.token, now_ms, answer.ok, "extend")
            if delivery is not None and answer.lease is not None:
                delivery.expires_ms = answer.lease.expires_at_ms
                delivery.ends_at = self.loop.time() + delivery.lease_s

    def _settled(self, settlements: list[Settlement], answers: list[Settled], now_ms: int) -> None:
        for settlement, answer in zip(settlements, answers, strict=True):
            lease = settlement.lease
            key = (lease.queue.full_name, lease.id)
            delivery = self._holder(key, lease.token, now_ms, answer.ok, "settle")
            if delivery is not None:
                del self.held[key]
                delivery.outcome = settlement.outcome
                wrong = wrong_outcome(delivery, settlement.outcome)
                if wrong is not None:
                    self.violate(f"{delivery} {wrong}: settled as {brief(settlement.outcome)}")
                if isinstance(settlement.outcome, Done):
                    self.results[key].append(delivery.run.value if delivery.run else None)

    def _asked(self, items: Any, answers: list[Cancellation]) -> None:
        for (queue, id), answer in zip(items, answers, strict=True):
            held = self.held.get((queue.full_name, id))
            if answer.status == "asked" and held is not None and held.asked_at is None:
                held.asked_at = self.loop.time()

    def clock_goes_back(self, active: set[tuple[Key, int]]) -> None:
        """The store's clock is about to go back: leases that were taken back would look valid again."""
        self.held = {key: each for key, each in self.held.items() if (key, each.claim.lease.fence) in active}

    # What handlers do.

    def start(self, process: Process, key: Key, fence: int, weight: int) -> Run:
        """A handler starts."""
        now, life = self.loop.time(), self.lives[process]
        delivery = self.deliveries[key, fence]
        self.trace.add(process, f"starts {delivery}")
        if delivery.life is not life:
            self.violate(f"{process} works on {delivery}")
        if delivery.run is not None:
            self.violate(f"{delivery} was started twice")
        if delivery.outcome is not None:
            self.violate(f"{delivery} was started after it was settled")
        if now > delivery.ends_at + BOUND_S and not life.was_paused(delivery.at, now):
            self.violate(f"{delivery} was started after its lease had ended")
        run = delivery.run = Run(delivery, weight, now)
        for other in self._running[key]:
            if self._is_valid(other.delivery) and self._is_valid(delivery):
                self.violate(f"two handlers with valid leases at once: {other.delivery} and {delivery}")
        self._running[key].append(run)
        self.starts[key] += 1
        life.running.append(run)
        load = sum(each.weight for each in life.running)
        if load > life.capacity:
            self.violate(f"{process} works on {load} units with a capacity of {life.capacity}")
        return run

    def _is_valid(self, delivery: Delivery) -> bool:
        return self.held.get(delivery.key) is delivery and self.clock.now_ms() < delivery.expires_ms

    def told_to_stop(self, run: Run) -> None:
        """A handler meets its cancellation."""
        self.trace.add(run.delivery.life.process, f"stops {run.delivery}")
        if run.cancelled_at is None:
            run.cancelled_at = self.loop.time()

    def end(self, run: Run, how: Any, value: Any = None) -> None:
        """A handler ends."""
        run.ended_at, run.how, run.value = self.loop.time(), how, value
        delivery = run.delivery
        self.trace.add(delivery.life.process, f"ends {delivery}: {how} {value!r}")
        delivery.life.running.remove(run)
        delivery.life.busy_at = self.loop.time()
        self._running[delivery.key].remove(run)
        self.check_run(run)

    def crashed(self, life: Life) -> None:
        """A process is gone with all its runs."""
        for run in life.running:
            self._running[run.delivery.key].remove(run)
            self.check_run(run)
        life.running.clear()
        life.ended_at = self.loop.time()

    def check_run(self, run: Run) -> None:
        """Whether a handler was stopped when it should have been; one that runs still is judged as of now."""
        for wrong in wrong_stops(run, self.loop.time()):
            self.violate(f"the handler of {run.delivery} {wrong}")
