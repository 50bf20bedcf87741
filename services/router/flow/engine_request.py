"""A caller's request as an engine takes it."""

from collections.abc import Sequence
from hashlib import blake2b

from twinlane.engine.v1 import engine_pb2

from libs.core.lanes import Lane
from services.router.flow.checks import Request

_SALT_BYTES = 16


def bound_salt(tenant: str, cache_salt: str) -> str:
    """Return a cache salt that no other tenant can produce, whatever salt its callers choose."""
    own = tenant.encode()
    # The tenant's length comes first: "ab" + "c" and "a" + "bc" must differ.
    return blake2b(b"%d:%s:%s" % (len(own), own, cache_salt.encode()), digest_size=_SALT_BYTES).hexdigest()


def engine_request(
    request: Request, *, request_id: str, model: str, token_ids: Sequence[int], cache_salt: str, lane: Lane, streamed: bool
) -> bytes:
    """Return the serialized request."""
    message_type = engine_pb2.GenerateRequest if streamed else engine_pb2.CompleteRequest
    message = message_type(
        request_id=request_id,
        model=model,
        token_ids=token_ids,
        cache_salt=cache_salt,
        lane=lane.value,  # type: ignore[arg-type]  # the numbers are those of the proto
        priority=request.priority,
    )
    if request.HasField("sampling"):
        message.sampling.CopyFrom(request.sampling)
    if request.HasField("stopping"):
        message.stopping.CopyFrom(request.stopping)
    return message.SerializeToString()
