"""Decisions of the batch lane: what to run next, when to try again, what belongs together, when it will be done."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

# B2: each failed item is tried again up to three times.
MAX_RETRIES = 3
_RETRY_FIRST_S = 1.0
_RETRY_FACTOR = 4.0
_RETRY_MAX_S = 120.0
# Leading characters that decide whether two prompts run together: some 128 tokens, a few cache blocks.
_GROUP_CHARS = 512
_GROUP_BITS = 63


@dataclass(frozen=True, kw_only=True)
class JobLoad:
    """What choosing needs to know of an open job."""

    job_id: str
    tenant: str
    priority: int
    created_at_s: float
    waiting: int
    in_flight: int


def share_room(jobs: Sequence[JobLoad], room: int) -> dict[str, int]:
    """Return how many items of each job to start next, `room` in all at most.

    Slots go one by one to the tenant with the fewest items in flight (max-min fairness), there to the most urgent job, the
    oldest first.
    """
    in_flight: dict[str, int] = {}
    for job in jobs:
        in_flight[job.tenant] = in_flight.get(job.tenant, 0) + job.in_flight
    left = {job.job_id: job.waiting for job in jobs}
    ranked = sorted(jobs, key=lambda job: (job.priority, job.created_at_s, job.job_id))
    shares: dict[str, int] = {}
    for _ in range(room):
        open_jobs = [job for job in ranked if left[job.job_id] > 0]
        if not open_jobs:
            break
        chosen = min(open_jobs, key=lambda job: in_flight[job.tenant])
        left[chosen.job_id] -= 1
        in_flight[chosen.tenant] += 1
        shares[chosen.job_id] = shares.get(chosen.job_id, 0) + 1
    return shares


def retry_delay_s(*, failures: int, retry_after_s: float | None, jitter: float) -> float | None:
    """Return the wait before the next attempt after `failures` failed ones (at least 1), or None where it was the last.

    1 s, 4 s, 16 s, spread by a factor of 0.5 to 1.5 (`jitter` in [0, 1)); never sooner than the refusal asked for.
    """
    if failures > MAX_RETRIES:
        return None
    delay_s = min(_RETRY_FIRST_S * _RETRY_FACTOR ** (failures - 1), _RETRY_MAX_S) * (0.5 + jitter)
    return max(delay_s, retry_after_s or 0.0)


def prefix_group(model: str, leading_text: str) -> int:
    """Return the group of a prompt by its leading characters: equal for prompts that share them, 0 to 2^63 - 1."""
    digest = blake2b(f"{model}\0{leading_text[:_GROUP_CHARS]}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> (64 - _GROUP_BITS)


def estimated_end_s(*, now_s: float, remaining: int, items_per_s: float | None) -> float | None:
    """Return when the rest will be done at this rate; None where nothing remains or no rate is known."""
    if remaining == 0 or not items_per_s:
        return None
    return now_s + remaining / items_per_s


def victims(running: Mapping[str, float], count: int) -> list[str]:
    """Return up to `count` running items to put back for realtime, those with the least work to lose (started last) first.

    `running` maps an item to when it started.
    """
    return sorted(running, key=lambda item: running[item], reverse=True)[:count]
