"""Controller epochs and tuning leases, in virtual time."""

import asyncio

import pytest

from services.engine.backend.sim_backend import SimBackend
from services.engine.domain import TuningValues
from services.engine.policy.tuning import TuningBounds, TuningUpdate
from services.engine.serving.errors import StaleEpochError
from services.engine.serving.tuning import TuningDesk, TuningOrder
from tests.support.virtual_time import run_virtual, virtual_clock
from tests.unit.engine.sim import sim_options

CONFIGURED = TuningValues(max_active_sequences=8, max_batched_tokens=128)
BOUNDS = TuningBounds(max_active_sequences=8, max_batched_tokens=256)


def order(sequences: int, *, epoch: int = 1, lease_s: float = 10.0) -> TuningOrder:
    update = TuningUpdate(max_active_sequences=sequences)
    return TuningOrder(update=update, controller_epoch=epoch, decision_id="d", lease_s=lease_s)


async def started() -> tuple[TuningDesk, SimBackend]:
    backend = SimBackend(sim_options(), clock=virtual_clock())
    await backend.start()
    desk = TuningDesk(backend, configured=CONFIGURED, bounds=BOUNDS, clock=virtual_clock())
    await desk.restore()
    return desk, backend


def test_obey_over_the_bound_applies_the_bound_and_names_the_field() -> None:
    async def main() -> None:
        desk, backend = await started()
        done = await desk.obey(order(99))
        assert (done.values.max_active_sequences, done.clamped_fields) == (8, ("max_active_sequences",))
        await desk.stop()
        await backend.stop()

    run_virtual(main())


def test_lease_without_renewal_returns_to_the_configured_tuning() -> None:
    async def main() -> None:
        desk, backend = await started()
        await desk.obey(order(2))
        await asyncio.sleep(9.9)
        assert desk.values.max_active_sequences == 2
        assert desk.standing.lease_remaining_s == pytest.approx(0.1)
        await asyncio.sleep(0.2)
        assert desk.values == CONFIGURED
        assert desk.standing.lease_remaining_s is None
        await desk.stop()
        await backend.stop()

    run_virtual(main())


def test_lease_renewed_in_time_holds_on() -> None:
    async def main() -> None:
        desk, backend = await started()
        await desk.obey(order(2))
        await asyncio.sleep(9.0)
        await desk.obey(order(2))
        await asyncio.sleep(9.0)
        assert desk.values.max_active_sequences == 2
        await desk.stop()
        await backend.stop()

    run_virtual(main())


def test_obey_of_an_older_epoch_is_refused_and_changes_nothing() -> None:
    async def main() -> None:
        desk, backend = await started()
        await desk.obey(order(4, epoch=7))
        with pytest.raises(StaleEpochError) as caught:
            await desk.obey(order(2, epoch=6))
        assert (caught.value.asked, caught.value.newest) == (6, 7)
        assert desk.values.max_active_sequences == 4
        await desk.stop()
        await backend.stop()

    run_virtual(main())
