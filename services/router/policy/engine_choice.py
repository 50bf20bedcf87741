"""Which engine gets a request: filters, then least predicted wait."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from libs.core.lanes import Lane
from services.router.domain import EngineState, EngineView, Freshness, Load, Need

# Assumed of an engine that has not said yet. Low, so that unknown engines do not look fast and draw all traffic.
_UNKNOWN_TOKENS_PER_S = 1_000.0
_UNKNOWN_STEP_S = 0.05


@dataclass(frozen=True, kw_only=True)
class Eligible:
    """Engines that could take the request now."""

    engines: tuple[EngineView, ...]


class Refusal(Enum):
    """Why no engine can take a request."""

    NO_ENGINE = "no_engine"
    ALL_DRAINING = "all_draining"
    TOO_LONG = "too_long"


@dataclass(frozen=True, kw_only=True)
class Refused:
    """No engine can. `max_context_tokens` is the largest of the lane's engines, 0 where none is known."""

    refusal: Refusal
    max_context_tokens: int


def filter_engines(engines: Sequence[EngineView], *, lane: Lane, pools: Sequence[str], need: Need) -> Eligible | Refused:
    """Return the engines to choose among.

    The lane's pools are in order of preference: REALTIME and BATCH use the first that has an eligible engine, AUTO all of
    them. Suspect engines count only where nothing else is left.
    """
    own = [engine for engine in engines if engine.pool in pools]
    serving = [engine for engine in own if engine.state is EngineState.SERVING]
    wanted = need.prompt_tokens + need.new_tokens
    fitting = [engine for engine in serving if engine.max_context_tokens >= wanted]
    trusted = [engine for engine in fitting if not engine.suspect] or fitting
    if not trusted:
        return _refused(own, wanted)
    if lane is Lane.AUTO:
        return Eligible(engines=tuple(trusted))
    first_pool = min((engine.pool for engine in trusted), key=list(pools).index)
    return Eligible(engines=tuple(engine for engine in trusted if engine.pool == first_pool))


def _refused(own: Sequence[EngineView], wanted_tokens: int) -> Refused:
    """A request is too long only where no engine could hold it, serving or not: what waits for an engine is no bad request. An
    engine that is not up yet may not know its context, 0."""
    holding = [e for e in own if e.max_context_tokens >= wanted_tokens or (e.max_context_tokens == 0 and _is_coming(e.state))]
    if own and not holding:
        refusal = Refusal.TOO_LONG
    elif own and all(engine.state is EngineState.DRAINING for engine in holding):
        refusal = Refusal.ALL_DRAINING
    else:
        refusal = Refusal.NO_ENGINE
    return Refused(refusal=refusal, max_context_tokens=max((engine.max_context_tokens for engine in own), default=0))


def _is_coming(state: EngineState) -> bool:
    return state in (EngineState.STARTING, EngineState.WARMING)


def predicted_wait_s(load: Load) -> float:
    """Return the seconds until a request that goes there now gets its turn: backlog ÷ prefill rate + one step.

    A stale or absent reading counts only this router's own calls, at an assumed rate.
    """
    if load.freshness is Freshness.FRESH:
        tokens = load.backlog_tokens + load.unseen_tokens
        rate = load.prompt_tokens_per_s or _UNKNOWN_TOKENS_PER_S
        return tokens / rate + (load.step_s or _UNKNOWN_STEP_S)
    return load.unseen_tokens / _UNKNOWN_TOKENS_PER_S + _UNKNOWN_STEP_S


def pick(engines: Sequence[EngineView], *, tie: float) -> EngineView:
    """Return the engine with the least predicted wait, among equals that with the fewest calls of this router in flight,
    among these the one that `tie` in [0, 1) points to. `engines` is not empty."""
    if len(engines) == 1:
        return engines[0]
    ranked = [((predicted_wait_s(engine.load), engine.load.in_flight), engine) for engine in engines]
    best = min(rank for rank, _ in ranked)
    equals = [engine for rank, engine in ranked if rank == best]
    return equals[int(tie * len(equals))]
