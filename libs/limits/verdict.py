"""What a limiter says."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Grant:
    """The cost was taken. `start_in_s` is how long its work must still wait for its turn, in seconds; 0 where it need not."""

    start_in_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Nothing was taken. The same cost is granted `retry_after_s` seconds from now if nobody else takes from the limiter
    meanwhile; infinite where the cost is more than the limiter can ever grant."""

    retry_after_s: float


Verdict = Grant | Refusal
