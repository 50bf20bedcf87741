"""InferenceService. Requests are parsed; answers are the engine's bytes, so the handlers have no serializer."""

from typing import Any

import grpc
from twinlane.inference.v1 import inference_pb2

from libs.rpc.server import Service
from services.router.flow.calls import Calls

NAME = "twinlane.inference.v1.InferenceService"


def inference_service(calls: Calls) -> Service:
    """Return the service to add to a server."""
    handlers: dict[str, Any] = {
        "Generate": grpc.unary_stream_rpc_method_handler(
            calls.generate, request_deserializer=inference_pb2.GenerateRequest.FromString
        ),
        "Complete": grpc.unary_unary_rpc_method_handler(
            calls.complete, request_deserializer=inference_pb2.CompleteRequest.FromString
        ),
    }
    generic = grpc.method_handlers_generic_handler(NAME, handlers)
    return Service(name=NAME, add_to=lambda server: server.add_generic_rpc_handlers((generic,)))
