"""The requests of the main job. Pure: input in, request out."""

from collections.abc import Sequence
from dataclasses import dataclass

from cli.job.inputs import Document, Ticket
from libs.client.events import ChatMessage, RequestOptions
from libs.core.lanes import Lane

# A category is one or two words.
_TICKET_TOKENS = 6
_DOCUMENT_TOKENS = 96
# Longer than any answer takes on a slow machine; a request that needs more is an error in the table.
_DEADLINE_S = 300.0
# What is asked of each document; every task is a request of its own.
DOCUMENT_TASKS = (
    ("summary", "Summarise this document in five sentences."),
    ("tasks", "List who has to do what by when according to this document."),
    ("figures", "Name the most important figures of this document and what they mean."),
)


@dataclass(frozen=True, kw_only=True)
class JobRequest:
    """One request of the job, as the client takes it."""

    messages: tuple[ChatMessage, ...]
    options: RequestOptions


def ticket_request(ticket: Ticket, names: Sequence[str]) -> JobRequest:
    """Return a realtime request that asks for the ticket's category out of `names`."""
    order = f"Classify the support ticket. Answer with one category only: {', '.join(names)}."
    return JobRequest(
        messages=(ChatMessage(role="system", content=order), ChatMessage(role="user", content=ticket.text)),
        options=RequestOptions(
            request_id=ticket.ticket_id, lane=Lane.REALTIME, max_new_tokens=_TICKET_TOKENS, deadline_s=_DEADLINE_S
        ),
    )


def document_requests(document: Document) -> tuple[JobRequest, ...]:
    """Return one batch request per task for the document."""
    return tuple(_document_request(document, name, task) for name, task in DOCUMENT_TASKS)


def _document_request(document: Document, name: str, task: str) -> JobRequest:
    return JobRequest(
        messages=(ChatMessage(role="user", content=f"{task}\n\n{document.text}"),),
        options=RequestOptions(
            request_id=f"{document.name}-{name}", lane=Lane.BATCH, max_new_tokens=_DOCUMENT_TOKENS, deadline_s=_DEADLINE_S
        ),
    )
