"""From text to tokens, without torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

SIM = "sim"


class ChatTurn(NamedTuple):
    """One turn of a conversation."""

    role: str
    content: str


class TokenizerError(Exception):
    """The tokenizer cannot be loaded, or a conversation does not fit its template; the message names the file or the fault."""


class Tokenizer(Protocol):
    """Turns prompts into tokens of one model. Safe to call from several threads."""

    vocabulary_size: int

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a plain prompt, the model's own beginning mark included where it has one."""
        ...

    def encode_chat(self, turns: Sequence[ChatTurn]) -> list[int]:
        """Return the tokens of a conversation that the model is to go on with. Raises TokenizerError."""
        ...


def load_tokenizer(source: str) -> Tokenizer:
    """Return the tokenizer of a model folder, or of the simulated model for "sim". Raises TokenizerError."""
    if source == SIM:
        from libs.tokens.sim import SimTokenizer  # each kind brings its own imports

        return SimTokenizer()
    from libs.tokens.folder import FolderTokenizer

    return FolderTokenizer(Path(source))
