"""Membership and leases."""

import pytest
from twinlane.common.v1 import engine_pb2

from libs.core.clock import ManualClock
from services.controller.domain import EngineState
from services.controller.registry import Registry, StaleEpochError, UnknownEngineError


class _Mesh:
    """A registry with leases of 3 s whose changes are counted."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.registry = Registry(clock=self.clock, lease_s=3.0)
        self.changes = 0
        self.registry.listen(self._count)

    def register(self, engine_id: str, epoch: int = 1, state: EngineState = EngineState.SERVING) -> None:
        self.registry.register(engine_pb2.EngineDescriptor(engine_id=engine_id, epoch=epoch), state)

    @property
    def names(self) -> list[str]:
        return [member.descriptor.engine_id for member in self.registry.members]

    def _count(self) -> None:
        self.changes += 1


def test_members_registered_in_any_order_are_ordered_by_name() -> None:
    mesh = _Mesh()
    mesh.register("b")
    mesh.register("a")
    assert mesh.names == ["a", "b"]


def test_register_renewal_is_no_change_and_keeps_the_lease() -> None:
    mesh = _Mesh()
    mesh.register("a")
    version = mesh.registry.version
    mesh.clock.advance(2.9)
    mesh.register("a")
    mesh.clock.advance(2.9)
    assert mesh.registry.expire() == ()
    assert (mesh.changes, mesh.registry.version) == (1, version)


def test_expire_lease_run_out_removes_only_that_engine() -> None:
    mesh = _Mesh()
    mesh.register("a")
    mesh.clock.advance(1.0)
    mesh.register("b")
    mesh.clock.advance(2.0)
    assert mesh.registry.expire() == ("a",)
    assert (mesh.names, mesh.changes) == (["b"], 3)


def test_register_newer_epoch_replaces_and_older_is_refused() -> None:
    mesh = _Mesh()
    mesh.register("a", epoch=1)
    mesh.register("a", epoch=2)
    with pytest.raises(StaleEpochError, match="epoch 1 is older than the registered 2"):
        mesh.register("a", epoch=1)
    assert [member.descriptor.epoch for member in mesh.registry.members] == [2]


def test_register_refused_epoch_does_not_renew_the_lease() -> None:
    mesh = _Mesh()
    mesh.register("a", epoch=2)
    mesh.clock.advance(2.9)
    with pytest.raises(StaleEpochError):
        mesh.register("a", epoch=1)
    mesh.clock.advance(0.1)
    assert mesh.registry.expire() == ("a",)


@pytest.mark.parametrize(
    ("epoch", "state", "changes"),
    [
        pytest.param(1, EngineState.DRAINING, 2, id="new state"),
        pytest.param(1, EngineState.SERVING, 1, id="same state"),
        pytest.param(2, EngineState.DRAINING, 1, id="another epoch"),
    ],
)
def test_hear_state_changes_only_the_registered_epochs_state(epoch: int, state: EngineState, changes: int) -> None:
    mesh = _Mesh()
    mesh.register("a")
    mesh.registry.hear_state("a", epoch, state)
    assert mesh.changes == changes


def test_hear_state_renews_no_lease() -> None:
    mesh = _Mesh()
    mesh.register("a")
    mesh.clock.advance(2.9)
    mesh.registry.hear_state("a", 1, EngineState.DRAINING)
    mesh.clock.advance(0.1)
    assert mesh.registry.expire() == ("a",)


@pytest.mark.parametrize(("epoch", "is_removed"), [(1, False), (2, True), (3, True)])
def test_deregister_leaves_a_newer_epoch(epoch: int, is_removed: bool) -> None:
    mesh = _Mesh()
    mesh.register("a", epoch=2)
    assert mesh.registry.deregister("a", epoch) == is_removed
    assert bool(mesh.names) != is_removed


def test_member_unknown_raises() -> None:
    with pytest.raises(UnknownEngineError, match="'x' is not registered"):
        _Mesh().registry.member("x")
