"""Stop texts over a stream: nothing that may turn out to be part of a stop text is given out early."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class StopScan:
    """Text to give out now, text held back, and whether a stop text was found."""

    released: str
    held: str
    stopped: bool


def scan(held: str, text: str, stops: tuple[str, ...]) -> StopScan:
    """Take new text. The answer ends before the first place at which any stop text begins."""
    seen = held + text
    places = [place for stop in stops if (place := seen.find(stop)) >= 0]
    if places:
        return StopScan(released=seen[: min(places)], held="", stopped=True)
    keep = _possible_start(seen, stops)
    return StopScan(released=seen[: len(seen) - keep], held=seen[len(seen) - keep :], stopped=False)


def _possible_start(seen: str, stops: tuple[str, ...]) -> int:
    """Length of the longest end of `seen` with which a stop text begins."""
    longest = max((len(stop) for stop in stops), default=1) - 1
    for size in range(min(longest, len(seen)), 0, -1):
        if any(stop.startswith(seen[-size:]) for stop in stops):
            return size
    return 0
