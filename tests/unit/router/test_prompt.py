"""From the input of a request to tokens."""

import asyncio
import threading
from collections.abc import Sequence

import pytest
from twinlane.common.v1 import generation_pb2
from twinlane.inference.v1 import inference_pb2

from libs.rpc.fault import FaultError
from libs.tokens.tokenizer import ChatTurn, TokenizerError
from services.router.flow.prompt import tokenise


class Recording:
    """One token a word; remembers the threads that it was called from."""

    vocabulary_size = 100

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []

    def encode(self, text: str) -> list[int]:
        self.threads.append(threading.current_thread())
        return [1] * len(text.split())

    def encode_chat(self, turns: Sequence[ChatTurn]) -> list[int]:
        if turns[0].role != "user":
            raise TokenizerError("the user speaks first")
        return self.encode(" ".join(turn.content for turn in turns))


def chat(role: str, content: str) -> inference_pb2.CompleteRequest:
    return inference_pb2.CompleteRequest(
        chat=inference_pb2.Chat(messages=[inference_pb2.ChatMessage(role=role, content=content)])
    )


@pytest.mark.parametrize(
    ("request_", "inline"),
    [
        pytest.param(inference_pb2.CompleteRequest(prompt="word " * 819), True, id="short-prompt"),
        pytest.param(inference_pb2.CompleteRequest(prompt="word " * 820), False, id="long-prompt"),
        pytest.param(chat("user", "word " * 819), True, id="short-chat"),
        pytest.param(chat("user", "word " * 820), False, id="long-chat"),
    ],
)
def test_long_texts_are_tokenised_beside_the_loop(request_: inference_pb2.CompleteRequest, inline: bool) -> None:
    tokenizer = Recording()

    tokens = asyncio.run(tokenise(request_, tokenizer))

    assert len(tokens) == (819 if inline else 820)
    assert [thread is threading.current_thread() for thread in tokenizer.threads] == [inline]


def test_token_ids_are_taken_as_they_are() -> None:
    request = inference_pb2.CompleteRequest(token_ids=generation_pb2.TokenIds(ids=[5, 6]))

    assert list(asyncio.run(tokenise(request, Recording()))) == [5, 6]


@pytest.mark.parametrize(
    ("request_", "reason", "field"),
    [
        pytest.param(inference_pb2.CompleteRequest(prompt="  "), "EMPTY_PROMPT", "input", id="no-token-in-the-prompt"),
        pytest.param(chat("user", " "), "EMPTY_PROMPT", "input", id="no-token-in-the-chat"),
        pytest.param(chat("system", "x"), "CHAT_TEMPLATE", "chat", id="chat-that-the-template-refuses"),
    ],
)
def test_input_without_tokens_is_refused(request_: inference_pb2.CompleteRequest, reason: str, field: str) -> None:
    with pytest.raises(FaultError) as caught:
        asyncio.run(tokenise(request_, Recording()))

    assert caught.value.fault.reason == reason
    assert [violation.field for violation in caught.value.fault.violations] == [field]
