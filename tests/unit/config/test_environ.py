import pytest

from libs.config import environ

NAME = "TWINLANE_TEST_VARIABLE"


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "before")


def test_read_of_a_set_variable_gives_its_value() -> None:
    assert environ.read(NAME) == "before"


def test_read_of_an_absent_variable_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAME)
    assert environ.read(NAME) is None


def test_export_sets_for_this_process() -> None:
    environ.export({NAME: "after"})
    assert environ.read(NAME) == "after"


def test_child_sets_for_the_child_alone() -> None:
    assert environ.child({NAME: "child"})[NAME] == "child"
    assert "PATH" in environ.child({})
    assert environ.read(NAME) == "before"
