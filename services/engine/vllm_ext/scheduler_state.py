"""What the class-aware scheduler owns beside vLLM's own state: tuning, what it has learnt, and its counters."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from libs.limits.ewma import Ewma
from services.engine.policy.arrivals import Arrivals
from services.engine.policy.scheduler_tuning import Envelope, SchedulerTuning, apply_update, step_targets
from services.engine.policy.step_budget import BatchDebt, StepBudget
from services.engine.policy.step_time import StepTimeCoefficients, StepTimeModel
from services.engine.vllm_ext.step_plan import StepRecord

# Key of our part in vLLM's additional_config: {"tuning": {field: value}, "prior": {coefficient: seconds}}.
CONFIG_KEY = "twinlane"
# Before any step was measured: a slow machine is assumed, for a step too short does less harm than one too long.
PRIOR = StepTimeCoefficients(base_s=0.01, prefill_token_s=1e-3, decode_s=1e-3, context_token_s=1e-7, attended_pair_s=1e-8)
# No machine that serves anybody is slower than this; a fit beyond it has gone astray.
CAPS = StepTimeCoefficients(base_s=1.0, prefill_token_s=0.05, decode_s=0.1, context_token_s=1e-4, attended_pair_s=1e-5)
_STEP_HALF_LIFE_S = 1.0
# Every one of the first steps teaches; then, where steps are short, some fifty a second are enough and cost less.
_LEARN_ALL_STEPS = 500
_LEARN_INTERVAL_S = 0.02


@dataclass(slots=True, kw_only=True)
class Counters:
    """Since the start of the engine."""

    steps: int = 0
    realtime_tokens: int = 0
    batch_tokens: int = 0
    realtime_preemptions: int = 0
    batch_preemptions: int = 0
    recomputed_tokens: int = 0
    budget_reasons: dict[str, int] = field(default_factory=dict)


class SchedulerState:
    """Mutable; owned by one scheduler, which alone calls it."""

    def __init__(self, *, envelope: Envelope, defaults: SchedulerTuning, prior: StepTimeCoefficients) -> None:
        self.envelope = envelope
        self.defaults = defaults
        self.tuning = defaults
        self.targets = step_targets(defaults)
        self.model = StepTimeModel(prior=prior, caps=CAPS)
        self.arrivals = Arrivals()
        self.debt = BatchDebt()
        self.budget: StepBudget | None = None
        self.counters = Counters()
        # Steps handed to the model and not yet finished, oldest first: two with asynchronous scheduling.
        self.in_flight: deque[StepRecord] = deque()
        self.step_s = Ewma(half_life_s=_STEP_HALF_LIFE_S)
        self.predicted_s = Ewma(half_life_s=_STEP_HALF_LIFE_S)
        self._finished_s = 0.0
        self._learnt_s = 0.0

    def set_tuning(self, tuning: SchedulerTuning) -> None:
        """Let values hold that are inside the envelope."""
        self.tuning = tuning
        self.targets = step_targets(tuning)

    def finish_step(self, record: StepRecord, *, now_s: float) -> None:
        """Learn from the oldest step, which has just come back. It ran from when it was handed over, or when the step before it
        ended if that was later."""
        seconds = now_s - max(record.started_s, self._finished_s)
        self._finished_s = now_s
        if seconds <= 0 or record.realtime_tokens + record.batch_tokens == 0:
            return
        self.counters.steps += 1
        self.counters.realtime_tokens += record.realtime_tokens
        self.counters.batch_tokens += record.batch_tokens
        if self.model.observations < _LEARN_ALL_STEPS or now_s - self._learnt_s >= _LEARN_INTERVAL_S:
            self._learnt_s = now_s
            self.step_s.add(seconds, now_s=now_s)
            self.predicted_s.add(self.model.observe(record.work, seconds), now_s=now_s)

    def note_budget(self, budget: StepBudget) -> None:
        """Remember what bounded the step."""
        self.budget = budget
        reasons = self.counters.budget_reasons
        reasons[budget.reason.value] = reasons.get(budget.reason.value, 0) + 1


def state_from_config(
    config: Mapping[str, Any], *, envelope: Envelope, max_active_sequences: int, max_batched_tokens: int
) -> SchedulerState:
    """Return the state as configured; `config` is our part of additional_config. Raises KeyError, ValueError or TypeError."""
    stock = SchedulerTuning(max_active_sequences=max_active_sequences, max_batched_tokens=max_batched_tokens)
    defaults = apply_update(stock, config.get("tuning", {}), envelope).values
    prior = StepTimeCoefficients(**config["prior"]) if "prior" in config else PRIOR
    return SchedulerState(envelope=envelope, defaults=defaults, prior=prior)
