"""Who may tune the engine and for how long: controller epochs and leases."""

import asyncio
from dataclasses import dataclass, field

import structlog

from libs.core.clock import Clock
from services.engine.backend.base import Backend
from services.engine.domain import BackendLostError, TuningValues
from services.engine.policy.tuning import ClampedTuning, TuningBounds, TuningUpdate, clamp, merge, moved_fields
from services.engine.serving.errors import StaleEpochError

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class TuningOrder:
    """A controller's order, checked."""

    update: TuningUpdate
    controller_epoch: int
    decision_id: str
    lease_s: float


@dataclass(frozen=True, kw_only=True)
class TuningStanding:
    """What holds, what it returns to, and why. `lease_remaining_s` is None while the configured tuning holds."""

    values: TuningValues
    configured: TuningValues
    controller_epoch: int
    lease_remaining_s: float | None


@dataclass(kw_only=True)
class _Lease:
    ends_at_s: float
    expiry: asyncio.Task[None] = field(repr=False)


class TuningDesk:
    """Applies orders one after the other, and the configured tuning when the last lease has run out."""

    def __init__(self, backend: Backend, *, configured: TuningValues, bounds: TuningBounds, clock: Clock) -> None:
        self._backend = backend
        self._configured = configured
        self._bounds = bounds
        self._clock = clock
        self._values = configured
        self._epoch = 0
        self._lease: _Lease | None = None
        self._turn = asyncio.Lock()

    @property
    def values(self) -> TuningValues:
        """Tuning in force."""
        return self._values

    @property
    def standing(self) -> TuningStanding:
        """Tuning in force and its lease."""
        remaining_s = None if self._lease is None else max(0.0, self._lease.ends_at_s - self._clock.monotonic_s())
        return TuningStanding(
            values=self._values,
            configured=self._configured,
            controller_epoch=self._epoch,
            lease_remaining_s=remaining_s,
        )

    async def restore(self) -> None:
        """Apply the configured tuning. Raises BackendLostError."""
        async with self._turn:
            self._values = await self._backend.apply_tuning(self._configured)

    async def obey(self, order: TuningOrder) -> ClampedTuning:
        """Apply an order and start its lease anew. Raises StaleEpochError, BackendLostError."""
        async with self._turn:
            if order.controller_epoch < self._epoch:
                raise StaleEpochError(order.controller_epoch, self._epoch)
            self._epoch = order.controller_epoch
            wanted = merge(self._values, order.update)
            self._values = await self._backend.apply_tuning(clamp(wanted, self._bounds).values)
            self._renew(order.lease_s)
        _log.info("tuning applied", decision_id=order.decision_id, epoch=order.controller_epoch, values=self._values)
        return ClampedTuning(values=self._values, clamped_fields=moved_fields(asked=wanted, holds=self._values))

    async def stop(self) -> None:
        """End the lease's task; the tuning stays."""
        if self._lease is not None:
            self._lease.expiry.cancel()
            await asyncio.gather(self._lease.expiry, return_exceptions=True)
            self._lease = None

    def _renew(self, lease_s: float) -> None:
        if self._lease is not None:
            self._lease.expiry.cancel()
        self._lease = _Lease(
            ends_at_s=self._clock.monotonic_s() + lease_s,
            expiry=asyncio.create_task(self._expire(lease_s), name="tuning lease"),
        )

    async def _expire(self, lease_s: float) -> None:
        """Return to the configured tuning after `lease_s`. An order that comes first cancels this task."""
        await asyncio.sleep(lease_s)
        async with self._turn:
            self._lease = None
            try:
                self._values = await self._backend.apply_tuning(self._configured)
            except BackendLostError:
                return
        _log.warning("tuning lease ran out", values=self._values)
