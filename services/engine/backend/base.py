"""The seam between the engine service and what runs the model. tests/contract/test_backend.py holds for every backend."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator

from services.engine.domain import BackendLostError, BackendRequest, BackendSnapshot, Limits, TokenChunk, TuningValues


class Backend(ABC):
    """Runs requests of one model on one partition. All methods are called from one event loop."""

    @abstractmethod
    async def start(self) -> Limits:
        """Load the model and return the startup envelope. Raises BackendStartError."""

    @abstractmethod
    def generate(self, request: BackendRequest) -> AsyncGenerator[TokenChunk, None]:
        """Yield the answer chunk by chunk; the last chunk has `finish`.

        Closing the generator or cancelling its task frees the request's slot and blocks at the next step boundary. Raises
        BackendLostError when the core ends meanwhile. `request_id` is unique among running requests.
        """

    @abstractmethod
    async def apply_tuning(self, values: TuningValues) -> TuningValues:
        """Set every value at the next step boundary, clamped to the startup envelope, and return what holds. Running
        requests are never stopped by it. Works while idle. Raises BackendLostError."""

    @abstractmethod
    def snapshot(self) -> BackendSnapshot:
        """Return the newest reading; cheap enough to call fifty times a second."""

    @abstractmethod
    async def wait_lost(self) -> BackendLostError:
        """Return when the core is lost, with the reason; never while it lives."""

    @abstractmethod
    async def stop(self) -> None:
        """End the core and free the partition. Requests still running end with BackendLostError. May be called twice."""
