"""The requests of the main job. Pure: input in, request out."""

from collections.abc import Sequence

from twinlane.common.v1 import generation_pb2, lane_pb2
from twinlane.inference.v1 import inference_pb2

from cli.job.inputs import Document, Ticket

# A category is one or two words.
_TICKET_TOKENS = 6
_DOCUMENT_TOKENS = 96
# What is asked of each document; every task is a request of its own.
DOCUMENT_TASKS = (
    ("summary", "Summarise this document in five sentences."),
    ("tasks", "List who has to do what by when according to this document."),
    ("figures", "Name the most important figures of this document and what they mean."),
)


def ticket_request(ticket: Ticket, names: Sequence[str]) -> inference_pb2.GenerateRequest:
    """Return a realtime request that asks for the ticket's category out of `names`."""
    request = inference_pb2.GenerateRequest(
        request_id=ticket.ticket_id,
        lane=lane_pb2.LANE_REALTIME,
        stopping=generation_pb2.Stopping(max_new_tokens=_TICKET_TOKENS),
    )
    request.chat.messages.add(
        role="system", content=f"Classify the support ticket. Answer with one category only: {', '.join(names)}."
    )
    request.chat.messages.add(role="user", content=ticket.text)
    return request


def document_requests(document: Document) -> tuple[inference_pb2.GenerateRequest, ...]:
    """Return one batch request per task for the document."""
    return tuple(_document_request(document, name, task) for name, task in DOCUMENT_TASKS)


def _document_request(document: Document, name: str, task: str) -> inference_pb2.GenerateRequest:
    request = inference_pb2.GenerateRequest(
        request_id=f"{document.name}-{name}",
        lane=lane_pb2.LANE_BATCH,
        stopping=generation_pb2.Stopping(max_new_tokens=_DOCUMENT_TOKENS),
    )
    request.chat.messages.add(role="user", content=f"{task}\n\n{document.text}")
    return request
