"""Requests of the main job."""

from cli.job.inputs import Document, Ticket
from cli.job.requests import DOCUMENT_TASKS, document_requests, ticket_request
from libs.core.lanes import Lane


def test_ticket_request_lists_categories_on_the_realtime_lane() -> None:
    request = ticket_request(Ticket(ticket_id="t-1", text="My card is gone.", category="card"), ("card", "loan"))
    assert (request.options.lane, request.options.request_id) == (Lane.REALTIME, "t-1")
    assert "card, loan" in request.messages[0].content
    assert request.messages[1].content == "My card is gone."


def test_ticket_request_does_not_give_the_answer_away() -> None:
    request = ticket_request(Ticket(ticket_id="t-1", text="It is gone.", category="secret"), ("card", "loan"))
    assert "secret" not in str(request)


def test_document_requests_are_one_per_task_on_the_batch_lane() -> None:
    requests = document_requests(Document(name="report", text="Long text."))
    assert [request.options.request_id for request in requests] == [f"report-{name}" for name, _ in DOCUMENT_TASKS]
    assert {request.options.lane for request in requests} == {Lane.BATCH}
    assert all("Long text." in request.messages[0].content for request in requests)
