from twinlane.common.v1 import lane_pb2

from libs.core.lanes import LANES


def test_lanes_have_the_names_and_numbers_of_the_proto() -> None:
    expected = {name.removeprefix("LANE_"): number for name, number in lane_pb2.Lane.items() if number}
    assert {lane.name: lane.value for lane in LANES} == expected
