"""Tokenizers: the simulated one, and that of a model folder made here."""

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from libs.tokens.tokenizer import ChatTurn, TokenizerError, load_tokenizer

_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' and loop.index0 %}"
    "{{ raise_exception('system comes first') }}{% endif %}{{ m.role }} {{ m.content }} {% endfor %}"
    "{% if add_generation_prompt %}assistant{% endif %}"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    words = ["<s>", "hello", "world", "user", "assistant", "system", "[UNK]"]
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["<s>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"bos_token": {"content": "<s>"}}))
    (tmp_path / "chat_template.jinja").write_text(_TEMPLATE)
    return tmp_path


def test_plain_prompt_gets_the_models_beginning_mark(folder: Path) -> None:
    assert load_tokenizer(str(folder)).encode("hello world") == [0, 1, 2]


def test_chat_follows_the_template_and_has_the_mark_once(folder: Path) -> None:
    assert load_tokenizer(str(folder)).encode_chat([ChatTurn("user", "hello")]) == [0, 3, 1, 4]


def test_chat_that_the_template_refuses_is_an_error_with_its_words(folder: Path) -> None:
    with pytest.raises(TokenizerError, match="system comes first"):
        load_tokenizer(str(folder)).encode_chat([ChatTurn("user", "hello"), ChatTurn("system", "world")])


def test_template_cannot_reach_outside_its_sandbox(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("{{ ''.__class__.__mro__ }}")

    with pytest.raises(TokenizerError, match="does not fit"):
        load_tokenizer(str(folder)).encode_chat([ChatTurn("user", "hello")])


def test_template_in_the_configuration_is_used(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages[0].content }}"}))

    assert load_tokenizer(str(folder)).encode_chat([ChatTurn("user", "world")]) == [2]


def test_default_of_several_templates_in_the_configuration_is_used(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    named = [{"name": "tools", "template": "hello"}, {"name": "default", "template": "{{ messages[0].content }}"}]
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))

    assert load_tokenizer(str(folder)).encode_chat([ChatTurn("user", "world")]) == [2]


def test_broken_template_in_the_configuration_names_that_file(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{% if %}"}))

    with pytest.raises(TokenizerError, match=r"tokenizer_config\.json"):
        load_tokenizer(str(folder))


@pytest.mark.parametrize(
    ("template", "words"),
    [
        pytest.param("{{ strftime_now('%d') }}", "strftime_now", id="function-that-is-not-there"),
        pytest.param("{{ 'a' + 1 }}", "concatenate", id="error-of-the-template's-own"),
    ],
)
def test_template_that_fails_says_why(folder: Path, template: str, words: str) -> None:
    (folder / "chat_template.jinja").write_text(template)

    with pytest.raises(TokenizerError, match=words):
        load_tokenizer(str(folder)).encode_chat([ChatTurn("user", "hello")])


def test_template_that_is_not_text_names_its_file(folder: Path) -> None:
    (folder / "chat_template.jinja").write_bytes(b"\xff")

    with pytest.raises(TokenizerError, match=r"chat_template\.jinja cannot be read"):
        load_tokenizer(str(folder))


def test_model_without_template_says_so(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()

    with pytest.raises(TokenizerError, match="no chat template"):
        load_tokenizer(str(folder)).encode_chat([ChatTurn("user", "world")])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        pytest.param("tokenizer.json", None, "does not exist", id="tokenizer-missing"),
        pytest.param("tokenizer.json", "{", "is not a tokenizer", id="tokenizer-broken"),
        pytest.param("tokenizer_config.json", "{", "cannot be read", id="config-broken"),
        pytest.param("tokenizer_config.json", "[]", "is not a JSON object", id="config-of-another-kind"),
        pytest.param("chat_template.jinja", "{% if %}", "template is broken", id="template-broken"),
    ],
)
def test_broken_folder_is_an_error_that_names_the_file(folder: Path, name: str, content: str | None, words: str) -> None:
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(content)

    with pytest.raises(TokenizerError, match=words) as caught:
        load_tokenizer(str(folder))

    assert name.split(".")[0] in str(caught.value) or str(folder) in str(caught.value)


def test_simulated_tokenizer_counts_words_and_marks() -> None:
    tokenizer = load_tokenizer("sim")

    assert len(tokenizer.encode("Hello, world!")) == 4
    assert tokenizer.encode("a b") == tokenizer.encode("a b")
    assert tokenizer.encode("   ") == [0]
    assert max(tokenizer.encode("Hello, world!")) < tokenizer.vocabulary_size
    assert len(tokenizer.encode_chat([ChatTurn("user", "hi there")])) == 4
