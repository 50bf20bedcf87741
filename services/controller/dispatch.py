"""From the loop's effects to orders with addresses."""

from collections.abc import Sequence

from services.controller.actuate import Actuator, Order
from services.controller.core.decision import Actuation
from services.controller.loop import NamedEffect
from services.controller.registry import Registry, UnknownEngineError


class Dispatch:
    """Finds each engine in the registry and has its tuning sent."""

    def __init__(self, *, registry: Registry, actuator: Actuator) -> None:
        self._registry = registry
        self._actuator = actuator

    async def carry_out(self, effects: Sequence[NamedEffect]) -> tuple[Actuation, ...]:
        """Carry out every effect; engines that have just left are failures."""
        orders, gone = [], []
        for named in effects:
            try:
                orders.append(self._order(named))
            except UnknownEngineError as error:
                gone.append(Actuation(engine_id=error.engine_id, error=str(error)))
        return (*await self._actuator.carry_out(orders), *gone)

    def _order(self, named: NamedEffect) -> Order:
        engine_id = named.effect.engine_id
        return Order(
            engine_id=engine_id,
            address=self._registry.member(engine_id).descriptor.address,
            tuning=named.effect.tuning,
            decision_id=named.decision_id,
        )
