"""One simulated mesh for all the tests of this folder."""

from collections.abc import Iterator

import pytest

from bench.mesh import Mesh, running_mesh


@pytest.fixture(scope="package")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    with running_mesh(engine="sim", data=tmp_path_factory.mktemp("tools")) as running:
        yield running
