"""Client channels between the mesh's own parts."""

import grpc

# A part that comes back must be found again quickly; gRPC's own default waits up to two minutes.
_RECONNECT_BACKOFF_MIN_MS = 100
_RECONNECT_BACKOFF_MAX_MS = 1_000
# A peer that died without closing its connection is noticed after the sum of these.
_KEEPALIVE_INTERVAL_MS = 10_000
_KEEPALIVE_TIMEOUT_MS = 2_000


def open_channel(address: str, *, max_message_bytes: int) -> grpc.aio.Channel:
    """Return a plaintext channel to host:port. It connects on first use and reconnects by itself; gRPC's own retries are off,
    because who may retry what is the mesh's policy."""
    return grpc.aio.insecure_channel(
        address,
        options=[
            ("grpc.enable_retries", 0),
            ("grpc.initial_reconnect_backoff_ms", _RECONNECT_BACKOFF_MIN_MS),
            ("grpc.min_reconnect_backoff_ms", _RECONNECT_BACKOFF_MIN_MS),
            ("grpc.max_reconnect_backoff_ms", _RECONNECT_BACKOFF_MAX_MS),
            ("grpc.keepalive_time_ms", _KEEPALIVE_INTERVAL_MS),
            ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.max_receive_message_length", max_message_bytes),
            ("grpc.max_send_message_length", max_message_bytes),
            ("grpc.use_local_subchannel_pool", 1),
        ],
    )
