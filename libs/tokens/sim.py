"""Tokens of the simulated model: one a word or mark, the same each time."""

import re
from collections.abc import Sequence
from zlib import crc32

from libs.tokens.tokenizer import ChatTurn

# That of SmolLM2, so that requests move freely between the simulated and the real engine.
SIM_VOCABULARY_SIZE = 49_152
_PIECES = re.compile(r"\w+|[^\w\s]")


class SimTokenizer:
    """See the module."""

    vocabulary_size = SIM_VOCABULARY_SIZE

    def encode(self, text: str) -> list[int]:
        """Return one token for each word and each mark; one for a text without any."""
        size = self.vocabulary_size
        return [crc32(piece.encode()) % size for piece in _PIECES.findall(text)] or [0]

    def encode_chat(self, turns: Sequence[ChatTurn]) -> list[int]:
        """Return the tokens of all turns, each led by its role."""
        return self.encode(" ".join(f"{turn.role} : {turn.content}" for turn in turns))
