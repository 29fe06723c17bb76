"""The checker of a simulation: observes every call and every run, and reports broken promises."""

from collections import defaultdict
from typing import Any

from headrace.model.claim import Claim, ClaimRequest, Claims, Lease, Settlement
from headrace.model.errors import HeadraceError
from headrace.model.outcome import Done
from headrace.model.results import Cancellation, Enqueued, Extended, Settled, Turned
from tests.simulation.history import Delivery, Key, Run, SimProcess, Trace
from tests.simulation.loop import Process, VirtualLoop
from tests.simulation.network import SkewedClock
from tests.simulation.render import summarize
from tests.simulation.rules import (
    BOUND_S,
    is_forgotten,
    is_lost_claim_dropped,
    settlements_of,
    wrong_outcome,
    wrong_stops,
)


class Checker:
    """Tracks leases by the answers of the store, and knows from them which settlements must be accepted."""

    def __init__(self, loop: VirtualLoop, trace: Trace) -> None:
        self.loop = loop
        self.trace = trace
        self.clock = SkewedClock(loop)  # replaced by the server's own
        self.violations: list[str] = []
        self.sim_processes: dict[Process, SimProcess] = {}
        self.held: dict[Key, Delivery] = {}
        self.deliveries: dict[tuple[Key, int], Delivery] = {}
        self.starts: dict[Key, int] = defaultdict(int)
        self.statuses: dict[Key, list[str]] = defaultdict(list)
        """The answers to enqueues of an id, in order."""
        self.results: dict[Key, list[Any]] = defaultdict(list)
        self.removed: set[Key] = set()
        self.latest_ms = 0
        """The latest time of the store's clock."""
        self.jumps: list[float] = []
        """When the store's clock jumped."""
        self._lost_nonces: set[str] = set()
        """Nonces of claims that were not answered at first."""
        self._running: dict[Key, list[Run]] = defaultdict(list)
        self._last_fence: dict[Key, int] = {}

    def violate(self, sentence: str) -> None:
        """A promise was broken."""
        self.trace.add("VIOLATION", sentence)
        self.violations.append(f"{sentence} (at {self.loop.time():.3f} s)")

    # Calls to the store.

    def applied(self, sender: Process, verb: str, arguments: Any, answer: Any, sent_at: float) -> None:
        """The store has applied a call."""
        now_ms = self.clock.now_ms()
        self.latest_ms = max(self.latest_ms, now_ms)
        if self.trace.is_on:
            self.trace.add(sender, f"{verb} {summarize(arguments)} -> {summarize(answer)}")
        if isinstance(answer, HeadraceError):
            return
        sim_process = self.sim_processes[sender]
        match verb:
            case "claim":
                self._claimed(sim_process, answer.items, arguments, now_ms, sent_at)
            case "turn":
                self._settled(arguments[0], answer.settled, now_ms)
                self._claimed(sim_process, answer.claimed, arguments[1], now_ms, sent_at)
            case "settle":
                self._settled(arguments, answer, now_ms)
            case "extend":
                self._extended(arguments, answer, now_ms)
            case "enqueue":
                self._enqueued(arguments, answer)
            case "cancel":
                self._cancel_asked(arguments, answer)
            case "remove":
                for queue, id in arguments:
                    self.held.pop((queue.full_name, id), None)
                    self.removed.add((queue.full_name, id))

    def sent(self, verb: str, arguments: Any) -> None:
        """A process sends a call."""
        for settlement in settlements_of(verb, arguments):
            self._delivery_of(settlement).pending_settlements += 1

    def _delivery_of(self, settlement: Settlement) -> Delivery:
        lease = settlement.lease
        return self.deliveries[(lease.queue.full_name, lease.id), lease.fence]

    def answered(self, sender: Process, verb: str, arguments: Any, answer: Any, sent_at: float) -> None:
        """A process gets the answer to a call."""
        if self.trace.is_on:
            self.trace.add(sender, f"  hears of {verb}: {summarize(answer)}")
        if isinstance(answer, Claims):
            self._received(answer.items, arguments.nonce, sent_at)
        elif isinstance(answer, Turned):
            self._received(answer.claimed, arguments[1].nonce, sent_at)
        elif verb in ("claim", "turn"):
            self._lost_nonces.add((arguments if verb == "claim" else arguments[1]).nonce)
        for settlement in settlements_of(verb, arguments):
            delivery = self._delivery_of(settlement)
            delivery.pending_settlements, delivery.settlement_answered_at = (
                delivery.pending_settlements - 1,
                self.loop.time(),
            )
        if verb in ("turn", "settle"):
            self._note_settled(settlements_of(verb, arguments), answer)
        if verb in ("claim", "turn", "settle") and not isinstance(answer, HeadraceError):
            self._check_forgotten(self.sim_processes[sender], sent_at)
        if verb == "extend":
            self._note_extended(arguments, answer, sent_at)

    def _note_extended(self, leases: list[Lease], answer: Any, sent_at: float) -> None:
        now, answers = self.loop.time(), answer
        if not isinstance(answer, list):
            # A partial answer: an id in two queues is certain for neither.
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
            if each.cancel_asked and delivery.cancel_heard_at is None:
                delivery.cancel_heard_at = now

    def _received(self, claims: list[Claim], nonce: str, sent_at: float) -> None:
        for claim in claims:
            delivery = self.deliveries[(claim.lease.queue.full_name, claim.record.id), claim.lease.fence]
            if delivery.received_at is None:
                delivery.received_at = self.loop.time()
            if nonce not in self._lost_nonces:
                delivery.believed_until = sent_at + delivery.lease_s

    def _note_settled(self, settlements: list[Settlement], answer: Any) -> None:
        """Answered settlements, accepted or refused, need not be repeated."""
        known = {getattr(each, "id", None) for each in getattr(answer, "known", ())}
        for settlement in settlements:
            if not isinstance(answer, HeadraceError) or settlement.lease.id in known:
                self._delivery_of(settlement).believed_until = None

    def _check_lost_claims(self, sim_process: SimProcess, nonce: str, now_ms: int) -> None:
        for delivery in self.held.values():
            if delivery.sim_process is sim_process and is_lost_claim_dropped(delivery, nonce, self.loop.time(), now_ms):
                delivery.received_at = self.loop.time()  # report it once
                self.violate(f"{delivery} was claimed, its answer was lost, and its worker went on to the next claim")

    def _check_forgotten(self, sim_process: SimProcess, sent_at: float) -> None:
        for delivery in self.held.values():
            if delivery.sim_process is sim_process and is_forgotten(delivery, sent_at):
                delivery.believed_until = None  # report it once
                self.violate(f"{delivery} has ended and its worker has forgotten to settle it")

    def _enqueued(self, jobs: Any, answers: list[Enqueued]) -> None:
        for job, answer in zip(jobs, answers, strict=True):
            self.statuses[job.queue.full_name, job.id].append(answer.status)

    def _claimed(
        self, sim_process: SimProcess, claims: list[Claim], request: ClaimRequest, now_ms: int, sent_at: float
    ) -> None:
        self._check_lost_claims(sim_process, request.nonce, now_ms)
        for claim in claims:
            lease, record = claim.lease, claim.record
            key = (lease.queue.full_name, record.id)
            held = self.held.get(key)
            if held is not None and held.claim.lease.token == lease.token:
                if held.sim_process is not sim_process:
                    self.violate(f"{held} was handed to {sim_process.process} as well")
                continue  # a repeated claim
            delivery = Delivery(key, claim, sim_process, self.loop.time(), sent_at, request.lease_ms / 1000)
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
                    self.violate(f"{delivery} {wrong}: settled as {summarize(settlement.outcome)}")
                if isinstance(settlement.outcome, Done):
                    self.results[key].append(delivery.run.value if delivery.run else None)

    def _cancel_asked(self, items: Any, answers: list[Cancellation]) -> None:
        for (queue, id), answer in zip(items, answers, strict=True):
            held = self.held.get((queue.full_name, id))
            if answer.status == "asked" and held is not None and held.cancel_asked_at is None:
                held.cancel_asked_at = self.loop.time()

    def clock_goes_back(self, active: set[tuple[Key, int]]) -> None:
        """The store's clock is about to go back: expired leases would look valid again."""
        self.held = {key: each for key, each in self.held.items() if (key, each.claim.lease.fence) in active}

    # Handlers.

    def start(self, process: Process, key: Key, fence: int, weight: int) -> Run:
        """A handler starts."""
        now, sim_process = self.loop.time(), self.sim_processes[process]
        delivery = self.deliveries[key, fence]
        self.trace.add(process, f"starts {delivery}")
        if delivery.sim_process is not sim_process:
            self.violate(f"{process} works on {delivery}")
        if delivery.run is not None:
            self.violate(f"{delivery} was started twice")
        if delivery.outcome is not None:
            self.violate(f"{delivery} was started after it was settled")
        if now > delivery.ends_at + BOUND_S and not sim_process.was_paused(delivery.at, now):
            self.violate(f"{delivery} was started after its lease had ended")
        run = delivery.run = Run(delivery, weight, now)
        for other in self._running[key]:
            if self._is_valid(other.delivery) and self._is_valid(delivery):
                self.violate(f"two handlers with valid leases at once: {other.delivery} and {delivery}")
        self._running[key].append(run)
        self.starts[key] += 1
        sim_process.running.append(run)
        load = sum(each.weight for each in sim_process.running)
        if load > sim_process.capacity:
            self.violate(f"{process} works on {load} units with a capacity of {sim_process.capacity}")
        return run

    def _is_valid(self, delivery: Delivery) -> bool:
        return self.held.get(delivery.key) is delivery and self.clock.now_ms() < delivery.expires_ms

    def note_cancellation(self, run: Run) -> None:
        """A handler was cancelled."""
        self.trace.add(run.delivery.sim_process.process, f"stops {run.delivery}")
        if run.cancelled_at is None:
            run.cancelled_at = self.loop.time()

    def end(self, run: Run, how: Any, value: Any = None) -> None:
        """A handler ends."""
        run.ended_at, run.how, run.value = self.loop.time(), how, value
        delivery = run.delivery
        self.trace.add(delivery.sim_process.process, f"ends {delivery}: {how} {value!r}")
        delivery.sim_process.running.remove(run)
        delivery.sim_process.busy_at = self.loop.time()
        self._running[delivery.key].remove(run)
        self.check_run(run)

    def crashed(self, sim_process: SimProcess) -> None:
        """A process has died with all its runs."""
        for run in sim_process.running:
            self._running[run.delivery.key].remove(run)
            self.check_run(run)
        sim_process.running.clear()
        sim_process.ended_at = self.loop.time()

    def check_run(self, run: Run) -> None:
        """Check that a handler was stopped in time; a running handler counts as stopped now."""
        for wrong in wrong_stops(run, self.loop.time()):
            self.violate(f"the handler of {run.delivery} {wrong}")
