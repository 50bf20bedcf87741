"""How long to wait before a service that died is started again."""

FIRST_DELAY_S = 0.5
MAX_DELAY_S = 10.0


def restart_delay_s(deaths: int) -> float:
    """Return the delay before the next start: 0.5 s after the first death in a row, doubling, at most 10 s.

    `deaths` counts deaths since the service last served, at least 1.
    """
    if deaths < 1:
        raise ValueError(f"deaths: {deaths} must be at least 1")
    # Ten doublings are beyond the maximum already; larger powers would only grow the number.
    return float(min(MAX_DELAY_S, FIRST_DELAY_S * 2 ** min(deaths - 1, 10)))
