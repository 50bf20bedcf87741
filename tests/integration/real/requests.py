"""Requests to a real backend, and waiting for what its core shows."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from jinja2 import Environment
from tokenizers import Tokenizer

from libs.core.lanes import Lane
from services.engine.backend.vllm_backend import VllmBackend
from services.engine.domain import BackendRequest, TokenChunk
from tests.support.real_model import model_folder

_LOOK_INTERVAL_S = 0.01


def asked(name: str, **fields: Any) -> BackendRequest:
    """Return a request for eight tokens, changed as told."""
    base: dict[str, Any] = {"token_ids": list(range(1, 40)), "lane": Lane.REALTIME, "max_new_tokens": 8, "ignore_eos": True}
    return BackendRequest(request_id=name, **{**base, **fields})


def prompt(length: int, *, seed: int) -> list[int]:
    """Return token ids that share no prefix with those of another seed."""
    return [20 + (seed * 131 + index * 7) % 900 for index in range(length)]


def chat(question: str, *, folder: Path | None = None) -> list[int]:
    """Return the tokens of a question put as the model's chat template has it, without torch, as the router does."""
    folder = folder or model_folder()
    template = Environment(autoescape=False).from_string(  # noqa: S701 - no markup is made
        (folder / "chat_template.jinja").read_text(encoding="utf-8")
    )
    text = template.render(messages=[{"role": "user", "content": question}], add_generation_prompt=True)
    ids: list[int] = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text, add_special_tokens=False).ids
    return ids


async def answer(backend: VllmBackend, request: BackendRequest) -> list[TokenChunk]:
    """Return every chunk of an answer."""
    async with aclosing(backend.generate(request)) as chunks:
        return [chunk async for chunk in chunks]


async def core_shows(backend: VllmBackend, holds: Callable[[dict[str, float]], bool], *, limit_s: float) -> None:
    """Return when the core's own account of its load is as asked. Raises TimeoutError."""
    async with asyncio.timeout(limit_s):
        while not holds(await backend.control({})):  # noqa: ASYNC110 - the core is asked; it tells nothing by itself
            await asyncio.sleep(_LOOK_INTERVAL_S)
