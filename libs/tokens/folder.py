"""The tokenizer of a Hugging Face model folder: tokenizer.json by the `tokenizers` library, the chat template by Jinja."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import Template, TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer as FastTokenizer

from libs.tokens.tokenizer import ChatTurn, TokenizerError

_TOKENIZER_FILE = "tokenizer.json"
_CONFIG_FILE = "tokenizer_config.json"
_TEMPLATE_FILE = "chat_template.jinja"


class FolderTokenizer:
    """See the module. Raises TokenizerError that names the file which is missing or broken."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = _load(folder / _TOKENIZER_FILE)
        self.vocabulary_size = self._tokenizer.get_vocab_size(with_added_tokens=True)
        self._config = _read_config(folder / _CONFIG_FILE)
        self._template = _read_template(folder, self._config)
        self._marks = {key: _mark(self._config.get(key)) for key in ("bos_token", "eos_token", "unk_token", "pad_token")}

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a plain prompt."""
        return list(self._tokenizer.encode(text).ids)

    def encode_chat(self, turns: Sequence[ChatTurn]) -> list[int]:
        """Return the tokens of a conversation by the model's template."""
        if self._template is None:
            raise TokenizerError(f"the model has no chat template; send a prompt instead ({_TEMPLATE_FILE} is missing)")
        messages = [turn._asdict() for turn in turns]
        try:
            text = self._template.render(messages=messages, add_generation_prompt=True, **self._marks)
        except Exception as error:  # a template is a program of its own and fails as one
            raise TokenizerError(f"the conversation does not fit the model's chat template: {error}") from error
        # The template writes the model's marks itself.
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)


def _load(file: Path) -> FastTokenizer:
    if not file.is_file():
        raise TokenizerError(f"{file} does not exist")
    try:
        return FastTokenizer.from_file(str(file))
    except Exception as error:  # the library raises bare Exception
        raise TokenizerError(f"{file} is not a tokenizer: {error}") from error


def _read_config(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TokenizerError(f"{file} cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise TokenizerError(f"{file} is not a JSON object")
    return config


def _read_template(folder: Path, config: dict[str, Any]) -> Template | None:
    file = folder / _TEMPLATE_FILE
    if file.is_file():
        return _compile(_read_text(file), file)
    text = _default_template(config.get("chat_template"))
    return None if text is None else _compile(text, folder / _CONFIG_FILE)


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TokenizerError(f"{file} cannot be read: {error}") from error


def _default_template(entry: object) -> str | None:
    """The entry is a template, or a list of named ones of which that for plain conversations is "default"."""
    if isinstance(entry, list):
        entry = next((one.get("template") for one in entry if isinstance(one, dict) and one.get("name") == "default"), None)
    return entry if isinstance(entry, str) else None


def _compile(text: str, file: Path) -> Template:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.globals["raise_exception"] = _raise_from_template
    try:
        return environment.from_string(text)
    except TemplateError as error:
        raise TokenizerError(f"{file}: the chat template is broken: {error.message}") from error


def _raise_from_template(message: str) -> NoReturn:
    raise TemplateError(message)


def _mark(value: object) -> str:
    """A mark is a text, or an object that holds it under "content"."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else ""
