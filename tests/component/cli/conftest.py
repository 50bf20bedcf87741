"""One fake mesh for each test."""

from collections.abc import Iterator

import pytest

from tests.component.cli.fake_mesh import FakeController, fake_mesh


@pytest.fixture
def mesh() -> Iterator[FakeController]:
    with fake_mesh() as controller:
        yield controller
