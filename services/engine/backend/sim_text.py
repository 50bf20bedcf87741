"""Made-up answers: which tokens come, what they read as, and where the text ends, all from the seed and the prompt."""

from collections.abc import Sequence
from hashlib import blake2b

_TEXT = (
    "account balance branch card cash charge check claim client code contract credit customer date debit deposit "
    "detail fee form fraud fund goal group holder hour interest invoice issue item ledger limit line loan login "
    "market member message minute month mortgage note notice number offer office order owner password payment "
    "period phone policy premium price process product profile purchase query question rate reason receipt record "
    "refund report request reset review risk rule savings score service session share signal source statement "
    "status stock system table team term ticket time token total trade transfer trust update user value vendor "
    "wallet week wire year yield zone"
)
_WORDS = tuple(_TEXT.split())

# Natural answers are short and differ in length.
_MIN_LENGTH_TOKENS = 16
_LENGTH_SPREAD_TOKENS = 112
_MASK = (1 << 64) - 1
# Constants of splitmix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators").
_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB


def digest(seed: int, token_ids: Sequence[int]) -> int:
    """Return the 64-bit start of an answer's random stream. `token_ids` are below 2^32."""
    hasher = blake2b(seed.to_bytes(16, "little", signed=True), digest_size=8)
    hasher.update(b"".join(token.to_bytes(4, "little") for token in token_ids))
    return int.from_bytes(hasher.digest(), "little")


def natural_length(start: int) -> int:
    """Return the number of tokens after which the simulated model ends its answer by itself."""
    return _MIN_LENGTH_TOKENS + _mix(start) % _LENGTH_SPREAD_TOKENS


def token_at(start: int, index: int, vocabulary_size: int) -> int:
    """Return token number `index` (from 0) of an answer."""
    return _mix(start + (index + 1) * _GOLDEN) % vocabulary_size


def text_of(token_id: int) -> str:
    """Return the text of a token: a space and a word."""
    return " " + _WORDS[token_id % len(_WORDS)]


def _mix(value: int) -> int:
    value = ((value ^ (value >> 30)) * _MIX_1) & _MASK
    value = ((value ^ (value >> 27)) * _MIX_2) & _MASK
    return value ^ (value >> 31)
