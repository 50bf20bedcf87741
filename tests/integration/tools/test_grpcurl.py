"""grpcurl lists, describes and calls every service of the mesh."""

import json
from typing import Any

import pytest

from bench.mesh import Mesh
from tests.integration.tools.methods import METHODS, SERVICES, Method
from tests.integration.tools.programs import ENDLESS_S, grpcurl


@pytest.mark.parametrize(("part", "service"), SERVICES)
def test_list_part_of_mesh_names_service(mesh: Mesh, part: str, service: str) -> None:
    listed = grpcurl(mesh.part(part).address, "list")
    assert listed.returncode == 0, listed.stderr
    assert service in listed.stdout.splitlines()


@pytest.mark.parametrize(("part", "service"), SERVICES)
def test_describe_service_shows_its_methods(mesh: Mesh, part: str, service: str) -> None:
    described = grpcurl(mesh.part(part).address, "describe", service)
    assert described.returncode == 0, described.stderr
    for method in METHODS:
        assert method.service != service or f"rpc {method.name} (" in described.stdout


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.part}-{method.path}")
def test_call_method_answers(mesh: Mesh, method: Method) -> None:
    limit = ("-max-time", str(ENDLESS_S)) if method.endless else ()
    called = grpcurl(*limit, "-d", method.grpcurl_request, mesh.part(method.part).address, method.path)
    assert called.returncode == 0 or method.endless, called.stderr
    assert method.expected in called.stdout


@pytest.mark.parametrize(
    ("part", "path", "request_json", "code", "reason"),
    [
        pytest.param(
            "router",
            "twinlane.inference.v1.InferenceService/Complete",
            '{"prompt":"x","model":"no-such-model"}',
            "model",
            "UNKNOWN_MODEL",
            id="unknown-model",
        ),
        pytest.param(
            "controller",
            "twinlane.controller.v1.ControllerAdminService/Pause",
            "{}",
            "reason",
            "REASON_REQUIRED",
            id="reason-missing",
        ),
    ],
)
def test_error_of_call_has_reason_and_field(
    mesh: Mesh, part: str, path: str, request_json: str, code: str, reason: str
) -> None:
    called = grpcurl("-format-error", "-d", request_json, mesh.part(part).address, path)
    details = _details(called.stderr)
    assert details["google.rpc.ErrorInfo"]["domain"] == "twinlane"
    assert details["google.rpc.ErrorInfo"]["reason"] == reason
    assert [violation["field"] for violation in details["google.rpc.BadRequest"]["field_violations"]] == [code]


def _details(error_json: str) -> dict[str, Any]:
    return {detail["@type"].rpartition("/")[2]: detail for detail in json.loads(error_json)["details"]}
