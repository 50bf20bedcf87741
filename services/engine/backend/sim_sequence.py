"""One request inside the simulated engine: what it still computes, what it has said, and who waits for it."""

import asyncio
from collections import deque

from services.engine.backend import sim_text
from services.engine.backend.sim_blocks import BlockLease, block_hashes
from services.engine.domain import BackendRequest, Finish, TokenChunk
from services.engine.policy.stop_text import scan


class Mailbox:
    """Chunks from the scheduler to one consumer, in order; an error ends it."""

    def __init__(self) -> None:
        self._chunks: deque[TokenChunk] = deque()
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    def put(self, chunk: TokenChunk) -> None:
        """Hand a chunk over and wake the consumer."""
        self._chunks.append(chunk)
        self._wake()

    def fail(self, error: Exception) -> None:
        """End the mailbox behind the chunks that are in it."""
        self._error = error
        self._wake()

    async def get(self) -> TokenChunk:
        """Return the next chunk. Raises the error once everything before it was taken."""
        while not self._chunks:
            if self._error is not None:
                raise self._error
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._chunks.popleft()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Sequence:
    """State of one request; changed by the scheduler task only, `cancelled` by the consumer."""

    def __init__(self, request: BackendRequest, *, order: int, block_size_tokens: int, seed: int) -> None:
        self.request = request
        self.rank = (request.priority, order)
        self.mailbox = Mailbox()
        self.cancelled = False
        self.finished = False
        self.hashes = block_hashes(request.token_ids, cache_salt=request.cache_salt, block_size_tokens=block_size_tokens)
        self.blocks = -(-(len(request.token_ids) + request.max_new_tokens) // block_size_tokens)
        self.lease: BlockLease | None = None
        self.cached_tokens = 0
        self.prompt_left = len(request.token_ids)
        self._said = 0
        self._held = ""
        self._start = sim_text.digest(seed, request.token_ids)
        natural = request.max_new_tokens + 1 if request.ignore_eos else sim_text.natural_length(self._start)
        self._last = min(natural, request.max_new_tokens)
        self._end = Finish.STOP if natural <= request.max_new_tokens else Finish.LENGTH

    @property
    def context_tokens(self) -> int:
        """Prompt tokens and generated ones."""
        return len(self.request.token_ids) + self._said

    def speak(self, vocabulary_size: int) -> None:
        """Generate the next token and hand it over; the last one sets `finished`."""
        token = sim_text.token_at(self._start, self._said, vocabulary_size)
        self._said += 1
        finish = self._end if self._said >= self._last else None
        text = sim_text.text_of(token)
        if self.request.stop:
            text, finish = self._watch_stops(text, finish)
        self.finished = finish is not None
        self.mailbox.put(TokenChunk(text=text, token_ids=(token,), cached_tokens=self.cached_tokens, finish=finish))

    def _watch_stops(self, text: str, finish: Finish | None) -> tuple[str, Finish | None]:
        found = scan(self._held, text, self.request.stop)
        self._held = found.held
        if found.stopped:
            return found.released, Finish.STOP
        return (found.released + found.held if finish is not None else found.released), finish


def answer_seed(seed: int, request: BackendRequest) -> int:
    """Return the seed of one answer: the backend's, and the request's own where it draws."""
    own = request.sampling.seed
    return seed if own is None or request.sampling.temperature == 0 else seed ^ own
