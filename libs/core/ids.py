"""Names for requests, decisions and processes: unique, and sortable by the time they were made."""

from random import Random

from libs.core.clock import Clock

_RANDOM_BITS = 64


class IdSource:
    """Makes ids such as ``req-0193c2f5a1b2-9f86d081884c7d65``: prefix, milliseconds since 1970 in hex, random bits in hex."""

    def __init__(self, *, clock: Clock, random: Random) -> None:
        self._clock = clock
        self._random = random

    def next(self, prefix: str) -> str:
        """Return a new id; ids of one prefix sort by their millisecond."""
        millis = int(self._clock.wall_s() * 1000)
        return f"{prefix}-{millis:012x}-{self._random.getrandbits(_RANDOM_BITS):016x}"
