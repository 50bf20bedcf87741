"""Layer: from the request's input to tokens. Long texts are tokenised in a thread, so that no other call waits for them."""

import asyncio
from collections.abc import Sequence

from twinlane.inference.v1 import inference_pb2

from libs.rpc.fault import FaultError, FieldViolation, invalid_argument
from libs.tokens.tokenizer import ChatTurn, Tokenizer, TokenizerError
from services.router.flow.checks import Request

# About a millisecond of tokenising; a switch to a thread and back costs a tenth of that.
_INLINE_CHARS = 4096


async def tokenise(request: Request, tokenizer: Tokenizer) -> Sequence[int]:
    """Return the prompt's tokens, at least one. Raises FaultError for none, and for a conversation that does not fit the
    template."""
    tokens = await _tokens(request, tokenizer)
    if not tokens:
        # Text that the model's tokenizer leaves nothing of, such as white space.
        raise FaultError(invalid_argument("EMPTY_PROMPT", FieldViolation("input", "has no tokens")))
    return tokens


async def _tokens(request: Request, tokenizer: Tokenizer) -> Sequence[int]:
    kind = request.WhichOneof("input")
    if kind == "token_ids":
        return request.token_ids.ids
    if kind == "prompt":
        if len(request.prompt) <= _INLINE_CHARS:
            return tokenizer.encode(request.prompt)
        return await asyncio.to_thread(tokenizer.encode, request.prompt)
    return await _tokenise_chat(request.chat, tokenizer)


async def _tokenise_chat(chat: inference_pb2.Chat, tokenizer: Tokenizer) -> Sequence[int]:
    turns = [ChatTurn(message.role, message.content) for message in chat.messages]
    try:
        if sum(len(turn.content) for turn in turns) <= _INLINE_CHARS:
            return tokenizer.encode_chat(turns)
        return await asyncio.to_thread(tokenizer.encode_chat, turns)
    except TokenizerError as error:
        raise FaultError(invalid_argument("CHAT_TEMPLATE", FieldViolation("chat", str(error)))) from None
