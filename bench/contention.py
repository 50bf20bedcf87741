"""How much of the machine others use while something is measured, so that disturbed figures are seen as such (Linux)."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from libs.core.clock import SystemClock

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_CORES = os.cpu_count() or 1
_CLOCK = SystemClock()
_LOOK_S = 3.0


class Contention:
    """Measures from its making: processor time that other processes than this one and its descendants got."""

    def __init__(self) -> None:
        self._begun_s = _CLOCK.monotonic_s()
        self._busy, self._own = _busy_ticks(), _own_ticks()

    def others_ratio(self) -> float:
        """Return the share of the machine's processor time that others got, 0 to 1."""
        elapsed_s = max(_CLOCK.monotonic_s() - self._begun_s, 1e-6)
        others = (_busy_ticks() - self._busy) - (_own_ticks() - self._own)
        return max(others, 0) / _TICKS_PER_S / elapsed_s / _CORES


def wait_quiet(*, below_ratio: float, patience_s: float) -> bool:
    """Return whether others used less than this share of the machine for three seconds on end, within the patience."""
    give_up_s = _CLOCK.monotonic_s() + patience_s
    while _CLOCK.monotonic_s() < give_up_s:
        look = Contention()
        time.sleep(_LOOK_S)  # noqa: TID251  # what is waited for is time: a look at the machine lasts this long
        if look.others_ratio() < below_ratio:
            return True
    return False


def _busy_ticks() -> int:
    user, nice, system, _, _, irq, softirq, *_ = (int(field) for field in _read(Path("/proc/stat")).split()[1:9])
    return user + nice + system + irq + softirq


def _own_ticks() -> int:
    """Ticks of this process, of its living descendants, and of their ended children."""
    return sum(_ticks(pid) for pid in _descendants(os.getpid()))


def _descendants(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in _read(children).split():
            yield from _descendants(int(child))


def _ticks(pid: int) -> int:
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) if fields else 0


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return ""
