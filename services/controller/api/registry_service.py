"""RegistryService: engines join and leave."""

import structlog
from twinlane.controller.v1 import registry_pb2, registry_pb2_grpc

from libs.rpc.boundary import Context
from services.controller.api.faults import InvalidRequestError, RequestFault, missing_engine, refuse
from services.controller.config import RegistryConfig
from services.controller.domain import EngineState
from services.controller.registry import Registry, descriptor_faults
from services.controller.wire import duration, read_state

_log = structlog.get_logger(__name__)


class RegistryService(registry_pb2_grpc.RegistryServiceServicer):
    """Checks what engines say and hands it to the registry."""

    def __init__(self, *, registry: Registry, config: RegistryConfig) -> None:
        self._registry = registry
        self._config = config

    async def Register(self, request: registry_pb2.RegisterRequest, _context: Context) -> registry_pb2.RegisterResponse:
        """Announce an engine or renew its lease. Raises InvalidRequestError, StaleEpochError."""
        self._registry.register(request.descriptor, _checked_state(request))
        return registry_pb2.RegisterResponse(
            lease=duration(self._config.lease_s), renew_interval=duration(self._config.renew_interval_s)
        )

    async def Deregister(self, request: registry_pb2.DeregisterRequest, _context: Context) -> registry_pb2.DeregisterResponse:
        """Remove an engine. Raises InvalidRequestError."""
        refuse([missing_engine(request.engine_id)])
        if self._registry.deregister(request.engine_id, request.epoch):
            _log.info("engine left", engine_id=request.engine_id)
        return registry_pb2.DeregisterResponse()


def _checked_state(request: registry_pb2.RegisterRequest) -> EngineState:
    faults = [RequestFault("INVALID_DESCRIPTOR", path, words) for path, words in descriptor_faults(request.descriptor)]
    state = read_state(request.state)
    if state is None:
        raise InvalidRequestError([*faults, RequestFault("INVALID_STATE", "state", "must be a known state of an engine")])
    refuse(faults)
    return state
