"""The waiting requests in vLLM's words: realtime by deadline, then late realtime, then background work."""

import heapq
from collections.abc import Iterable, Iterator
from itertools import chain, count, islice
from typing import Any

from vllm.v1.core.sched.request_queue import RequestQueue

from services.engine.policy.admission import Admission
from services.engine.policy.ordering import is_late
from services.engine.vllm_ext.tracked_request import TrackOf

_UNLIMITED = Admission(realtime=2**31, batch=2**31)

# (order key, sequence number that keeps keys apart, vllm.v1.request.Request)
_Entry = tuple[tuple[float, ...], int, Any]


class ClassAwareQueue(RequestQueue):  # type: ignore[misc]  # vLLM has no types that mypy could follow
    """Replaces Scheduler.waiting. Within a step it shows only requests of classes that may still start."""

    def __init__(self, track_of: TrackOf) -> None:
        self._track_of = track_of
        self._on_time: list[_Entry] = []
        self._late: list[_Entry] = []
        self._background: list[_Entry] = []
        self._sequence = count()
        self._admission = _UNLIMITED

    @property
    def realtime_waiting(self) -> int:
        """Waiting realtime requests, late ones included."""
        return len(self._on_time) + len(self._late)

    @property
    def background_waiting(self) -> int:
        """Waiting requests of the other classes."""
        return len(self._background)

    def open(self, admission: Admission, *, now_s: float) -> None:
        """Begin a step: at most these many of each class are shown. Requests that became late go behind the others."""
        self._admission = admission
        while self._on_time and is_late(deadline_s=self._track_of(self._on_time[0][2]).tag.deadline_s, now_s=now_s):
            _, sequence, request = heapq.heappop(self._on_time)
            heapq.heappush(self._late, ((self._track_of(request).arrived_s,), sequence, request))

    def close(self) -> None:
        """End a step."""
        self._admission = _UNLIMITED

    def first_on_time(self, most: int) -> list[Any]:
        """Return up to `most` waiting realtime requests that are not late, about the most urgent ones."""
        return [entry[2] for entry in self._on_time[:most]]

    def first_realtime(self, most: int) -> list[Any]:
        """Return up to `most` waiting realtime requests, about the most urgent ones, late ones behind."""
        return [entry[2] for entry in islice(chain(self._on_time, self._late), most)]

    def first_background(self) -> Any | None:
        """Return the background request that is next."""
        return self._background[0][2] if self._background else None

    def add_request(self, request: Any) -> None:
        """See RequestQueue."""
        tracked = self._track_of(request)
        heapq.heappush(
            self._on_time if tracked.realtime else self._background, (tracked.order_key, next(self._sequence), request)
        )

    def pop_request(self) -> Any:
        """See RequestQueue. Raises IndexError where no request may start."""
        heap = self._next_heap()
        if heap is None:
            raise IndexError("no request may start")
        admission = self._admission
        if heap is self._background:
            self._admission = Admission(realtime=admission.realtime, batch=admission.batch - 1)
        else:
            self._admission = Admission(realtime=admission.realtime - 1, batch=admission.batch)
        return heapq.heappop(heap)[2]

    def peek_request(self) -> Any:
        """See RequestQueue. Raises IndexError where no request may start."""
        heap = self._next_heap()
        if heap is None:
            raise IndexError("no request may start")
        return heap[0][2]

    def prepend_request(self, request: Any) -> None:
        """See RequestQueue; the order is by class and key, there is no front."""
        self.add_request(request)

    def prepend_requests(self, requests: Iterable[Any]) -> None:
        """See RequestQueue; the order is by class and key, there is no front."""
        for request in requests:
            self.add_request(request)

    def remove_request(self, request: Any) -> None:
        """See RequestQueue."""
        self.remove_requests([request])

    def remove_requests(self, requests: Iterable[Any]) -> None:
        """See RequestQueue."""
        gone = {request.request_id for request in requests}
        for heap in (self._on_time, self._late, self._background):
            kept = [entry for entry in heap if entry[2].request_id not in gone]
            if len(kept) < len(heap):
                heap[:] = kept
                heapq.heapify(heap)

    def __bool__(self) -> bool:
        """Return whether a request may start."""
        return self._next_heap() is not None

    def __len__(self) -> int:
        """Return how many requests wait, whether they may start or not."""
        return len(self._on_time) + len(self._late) + len(self._background)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over all in order."""
        for heap in (self._on_time, self._late, self._background):
            for entry in sorted(heap):
                yield entry[2]

    def _next_heap(self) -> list[_Entry] | None:
        if self._admission.realtime > 0:
            if self._on_time:
                return self._on_time
            if self._late:
                return self._late
        return self._background if self._background and self._admission.batch > 0 else None
