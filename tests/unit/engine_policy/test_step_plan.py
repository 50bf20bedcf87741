from types import SimpleNamespace
from typing import Any

from services.engine.policy.request_tag import RequestTag
from services.engine.policy.step_budget import BudgetReason, StepBudget
from services.engine.policy.step_time import StepWork
from services.engine.vllm_ext.step_plan import Scheduled, StepPlan, account
from services.engine.vllm_ext.tracked_request import TrackedRequest

_BUDGET = StepBudget(realtime_tokens=100, batch_tokens=50, target_s=0.1, reason=BudgetReason.REALTIME_PRESENT)


def _plan() -> StepPlan:
    return StepPlan(budget=_BUDGET, chunk_tokens=30, realtime_left=100, batch_left=50)


def _tracked(*, realtime: bool, cached: int | None = 0, lost: int | None = None) -> TrackedRequest:
    return TrackedRequest(
        tag=RequestTag(),
        realtime=realtime,
        arrived_s=0.0,
        order_key=(0.0,),
        running_key=(0.0,),
        cached_tokens=cached,
        lost_tokens=lost,
    )


def _requests(**computed: int) -> dict[str, Any]:
    return {name: SimpleNamespace(num_computed_tokens=tokens) for name, tokens in computed.items()}


def test_batch_takes_chunks_until_its_budget_is_used() -> None:
    plan = _plan()

    assert [plan.take(realtime=False, wanted_tokens=2000) for _ in range(3)] == [30, 20, 0]


def test_realtime_takes_of_its_own_budget_and_in_no_chunks() -> None:
    plan = _plan()

    assert [plan.take(realtime=True, wanted_tokens=tokens) for tokens in (80, 40, 1)] == [80, 20, 0]
    assert plan.batch_left == 50


def test_account_tells_prompts_from_decodes_and_the_classes_apart() -> None:
    tracked = {"a": _tracked(realtime=True), "b": _tracked(realtime=False), "c": _tracked(realtime=False)}

    held = account({"a": 1, "b": 1, "c": 40}, _requests(a=101, b=201, c=50, idle=7), tracked)

    work = StepWork(prefill_tokens=40, decodes=2, context_tokens=300, attended_pairs=40 * 10 + 800)
    assert held == Scheduled(work, realtime_tokens=1, batch_tokens=41, batch_prefill_tokens=40, beginning=())


def test_account_names_requests_that_start_or_start_again() -> None:
    tracked = {
        "new": _tracked(realtime=True, cached=None),
        "back": _tracked(realtime=False, lost=90),
        "going on": _tracked(realtime=False),
    }

    held = account(
        {"new": 10, "back": 20, "going on": 5}, {**_requests(new=42, back=84), **_requests(**{"going on": 9})}, tracked
    )

    assert held.beginning == (("new", 32), ("back", 64))
