"""The input of the main job, shipped in cli/job/data: support tickets, and long documents."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DATA_FOLDER = Path(__file__).parent / "data"


@dataclass(frozen=True, kw_only=True)
class Ticket:
    """One short support ticket and the category that a person gave it."""

    ticket_id: str
    text: str
    category: str


@dataclass(frozen=True, kw_only=True)
class Document:
    """One long document."""

    name: str
    text: str


def load_tickets(folder: Path = DATA_FOLDER) -> tuple[Ticket, ...]:
    """Read tickets.jsonl: one object a line with id, text and category."""
    lines = (folder / "tickets.jsonl").read_text(encoding="utf-8").splitlines()
    rows = (json.loads(line) for line in lines if line)
    return tuple(Ticket(ticket_id=row["id"], text=row["text"], category=row["category"]) for row in rows)


def load_documents(folder: Path = DATA_FOLDER) -> tuple[Document, ...]:
    """Read every text file under documents/, in the order of their names."""
    files = sorted((folder / "documents").glob("*.txt"))
    return tuple(Document(name=file.stem, text=file.read_text(encoding="utf-8")) for file in files)


def categories(tickets: Sequence[Ticket]) -> tuple[str, ...]:
    """Return the categories that occur, in alphabetical order."""
    return tuple(sorted({ticket.category for ticket in tickets}))
