"""The lanes, as pure code names them. Numbers are those of twinlane.common.v1.Lane."""

from enum import IntEnum


class Lane(IntEnum):
    """Service class of a request."""

    REALTIME = 1
    BATCH = 2
    AUTO = 3


LANES = tuple(Lane)
