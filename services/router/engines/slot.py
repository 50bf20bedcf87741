"""What a router keeps of one engine: facts, last reading, and its own calls in flight there."""

from dataclasses import dataclass

from twinlane.common.v1 import engine_pb2
from twinlane.engine.v1 import telemetry_pb2

from services.router.domain import EngineState, EngineView, Freshness, Load
from services.router.engines.client import EngineClient


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The load part of a snapshot, and when it was taken by this router's monotonic clock."""

    taken_at_s: float
    sequence: int
    backlog_tokens: int
    prompt_tokens_per_s: float | None
    step_s: float | None


def to_reading(snapshot: telemetry_pb2.EngineSnapshot, *, taken_at_s: float) -> Reading:
    """Return what choosing needs of a snapshot."""
    return Reading(
        taken_at_s=taken_at_s,
        sequence=snapshot.sequence,
        backlog_tokens=sum(lane.waiting_prompt_tokens for lane in snapshot.lanes),
        prompt_tokens_per_s=snapshot.prompt_tokens_per_s if snapshot.HasField("prompt_tokens_per_s") else None,
        step_s=snapshot.step_ms / 1000 if snapshot.HasField("step_ms") else None,
    )


class Lease:
    """One call's place on an engine. Released exactly once, on every way out of the call."""

    __slots__ = ("_slot", "_unseen_in", "_waiting_tokens", "released", "slot_id")

    def __init__(self, slot: "EngineSlot", prompt_tokens: int) -> None:
        self._slot = slot
        self._waiting_tokens = prompt_tokens
        self._unseen_in = slot.reading_number
        self.slot_id = slot.descriptor.engine_id
        self.released = False

    @property
    def slot(self) -> "EngineSlot":
        """The engine's slot as it was when the lease was taken."""
        return self._slot

    def first_token(self) -> None:
        """The prompt is processed: it is backlog no more."""
        self._slot.settle(self._waiting_tokens, self._unseen_in)
        self._waiting_tokens = 0

    def release(self) -> None:
        """End the call's place. Raises RuntimeError the second time."""
        if self.released:
            raise RuntimeError(f"a lease on {self.slot_id} was released twice")
        self.released = True
        self.first_token()
        self._slot.leave()


class EngineSlot:
    """One life (epoch) of one engine at one address. A new life gets a new slot, so that counters start anew."""

    def __init__(self, descriptor: engine_pb2.EngineDescriptor, client: EngineClient) -> None:
        self.descriptor = descriptor
        self.client = client
        self.state = EngineState.STARTING
        self.reading: Reading | None = None
        self.reading_number = 0
        self.in_flight = 0
        self.waiting_tokens = 0
        self.unseen_tokens = 0
        self.suspect_until_s = 0.0
        self.retired = False

    def take(self, prompt_tokens: int) -> Lease:
        """Count a call at once, before telemetry can."""
        self.in_flight += 1
        self.waiting_tokens += prompt_tokens
        self.unseen_tokens += prompt_tokens
        return Lease(self, prompt_tokens)

    def settle(self, prompt_tokens: int, unseen_in: int) -> None:
        """Prompt tokens of a call are backlog no more; called by its lease."""
        self.waiting_tokens -= prompt_tokens
        if unseen_in == self.reading_number:
            self.unseen_tokens -= prompt_tokens

    def leave(self) -> None:
        """A call ended; called by its lease."""
        self.in_flight -= 1

    def read(self, reading: Reading) -> None:
        """Take a newer reading: calls made before it are in its backlog."""
        if self.reading is not None and reading.sequence <= self.reading.sequence:
            return
        self.reading = reading
        self.reading_number += 1
        self.unseen_tokens = 0
        self.suspect_until_s = 0.0

    def freshness(self, *, now_s: float, fresh_s: float) -> Freshness:
        """Return how much the reading is worth."""
        if self.reading is None:
            return Freshness.ABSENT
        return Freshness.FRESH if now_s - self.reading.taken_at_s <= fresh_s else Freshness.STALE

    def view(self, *, now_s: float, fresh_s: float) -> EngineView:
        """Return the engine as a choice sees it."""
        freshness, reading, descriptor = self.freshness(now_s=now_s, fresh_s=fresh_s), self.reading, self.descriptor
        fresh = freshness is Freshness.FRESH
        load = Load(
            freshness=freshness,
            backlog_tokens=reading.backlog_tokens if reading else 0,
            unseen_tokens=self.unseen_tokens if fresh else self.waiting_tokens,
            in_flight=self.in_flight,
            prompt_tokens_per_s=reading.prompt_tokens_per_s if reading else None,
            step_s=reading.step_s if reading else None,
        )
        return EngineView(
            engine_id=descriptor.engine_id,
            pool=descriptor.pool,
            state=self.state,
            suspect=self.suspect_until_s > now_s,
            max_context_tokens=descriptor.limits.max_context_tokens,
            load=load,
        )

    def check_integrity(self) -> None:
        """Raise AssertionError where a count is negative, or an idle engine has tokens waiting."""
        counts = (self.in_flight, self.waiting_tokens, self.unseen_tokens)
        if min(counts) < 0 or (self.in_flight == 0 and self.waiting_tokens):
            raise AssertionError(f"{self.descriptor.engine_id}: in flight, waiting, unseen are {counts}")
