"""What an engine is: fixed within an epoch, but for the limits that only the loaded backend knows."""

from dataclasses import dataclass, replace

from services.engine.domain import Limits, Partition


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Facts of twinlane.common.v1.EngineDescriptor. Until the backend has started, `limits` are the configured ones, with no
    blocks and no memory."""

    engine_id: str
    epoch: int
    address: str
    pool: str
    model: str
    backend: str
    profile: str
    partition: Partition
    limits: Limits
    version: str


class IdentityCard:
    """The identity as it stands now; main writes it, others read it."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity

    def measured(self, limits: Limits) -> None:
        """Put in the limits that the backend started with."""
        self.identity = replace(self.identity, limits=limits)

    def listens_at(self, address: str) -> None:
        """Put in the address that was bound."""
        self.identity = replace(self.identity, address=address)
