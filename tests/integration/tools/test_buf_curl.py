"""buf curl lists and calls every service of the mesh, and shows machine-readable reasons."""

import base64
import json

import pytest
from google.rpc import error_details_pb2

from bench.mesh import Mesh
from tests.integration.tools.methods import METHODS, SERVICES, Method
from tests.integration.tools.programs import buf_curl, first_output_of


@pytest.mark.parametrize(("part", "service"), SERVICES)
def test_list_services_of_part_names_service(mesh: Mesh, part: str, service: str) -> None:
    listed = buf_curl("--list-services", f"http://{mesh.part(part).address}")
    assert listed.returncode == 0, listed.stderr
    assert service in listed.stdout.splitlines()


@pytest.mark.parametrize("part", ["router", "realtime-1", "batch-1", "controller"])
def test_list_methods_of_part_names_every_method(mesh: Mesh, part: str) -> None:
    listed = buf_curl("--list-methods", f"http://{mesh.part(part).address}")
    assert {method.path for method in METHODS if method.part == part} <= set(listed.stdout.splitlines())


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.part}-{method.path}")
def test_call_method_answers(mesh: Mesh, method: Method) -> None:
    url = f"http://{mesh.part(method.part).address}/{method.path}"
    if method.endless:
        assert method.expected in first_output_of("-d", method.request, url)
        return
    called = buf_curl("-d", method.request, url)
    assert called.returncode == 0, called.stderr
    assert method.expected in called.stdout


def test_error_of_call_carries_error_info(mesh: Mesh) -> None:
    called = buf_curl("-d", "{}", f"http://{mesh.controller}/twinlane.controller.v1.ControllerAdminService/Pause")
    details = {detail["type"]: detail["value"] for detail in json.loads(called.stderr)["details"]}
    info = error_details_pb2.ErrorInfo.FromString(base64.b64decode(details["google.rpc.ErrorInfo"] + "=="))
    assert (info.domain, info.reason) == ("twinlane", "REASON_REQUIRED")
