import pytest

from libs.rpc.address import split_address


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        pytest.param("localhost:80", ("localhost", 80), id="name"),
        pytest.param("127.0.0.1:0", ("127.0.0.1", 0), id="v4"),
        pytest.param("[::1]:65535", ("::1", 65535), id="v6"),
    ],
)
def test_split_address_of_a_good_address_gives_its_parts(address: str, expected: tuple[str, int]) -> None:
    assert split_address(address) == expected


@pytest.mark.parametrize("address", ["", "host", ":80", "host:", "host:-1", "host:65536", "host:80a", "host:٨٠", "http://host"])
def test_split_address_of_a_bad_address_names_it(address: str) -> None:
    with pytest.raises(ValueError, match=r"is not host:port|has no port between 0 and 65535") as caught:
        split_address(address)
    assert repr(address) in str(caught.value)
