"""The shipped input: enough of it, varied, and whole."""

from collections import Counter

from cli.job.inputs import categories, load_documents, load_tickets


def test_load_tickets_are_a_few_hundred_distinct_ones_in_even_categories() -> None:
    tickets = load_tickets()
    assert len({ticket.text for ticket in tickets}) == len(tickets) == 240
    assert len({ticket.ticket_id for ticket in tickets}) == 240
    assert set(Counter(ticket.category for ticket in tickets).values()) == {30}


def test_load_tickets_fit_a_realtime_prompt() -> None:
    assert max(len(ticket.text.split()) for ticket in load_tickets()) < 60


def test_load_documents_are_long_and_distinct() -> None:
    documents = load_documents()
    assert len({document.text for document in documents}) == len(documents) == 6
    assert all(1000 <= len(document.text.split()) <= 2000 for document in documents)


def test_categories_are_sorted() -> None:
    names = categories(load_tickets())
    assert names == tuple(sorted(names))
    assert "fraud" in names
