"""Ended items of a job, in the order they ended or in the order of the lines."""

from sqlalchemy import Connection, select

from services.router.batch.domain import BlobRef, EndedItem
from services.router.batch.rows import to_ended
from services.router.batch.schema import ITEMS


def read_ended(connection: Connection, job_id: str, *, from_seq: int, limit: int) -> list[EndedItem]:
    """Return up to `limit` ended items from result_seq `from_seq` on, as they ended."""
    query = (
        select(ITEMS).where(ITEMS.c.job_id == job_id, ITEMS.c.result_seq >= from_seq).order_by(ITEMS.c.result_seq).limit(limit)
    )
    return [to_ended(row) for row in connection.execute(query)]


def read_ordered(connection: Connection, job_id: str, *, from_index: int, limit: int) -> list[EndedItem]:
    """Return ended items from line `from_index` on, in the order of the lines, up to the first that has not ended."""
    query = (
        select(ITEMS)
        .where(ITEMS.c.job_id == job_id, ITEMS.c.item_index >= from_index)
        .order_by(ITEMS.c.item_index)
        .limit(limit)
    )
    ended: list[EndedItem] = []
    for row in connection.execute(query):
        if row.result_seq is None:
            break
        ended.append(to_ended(row))
    return ended


def read_payload(connection: Connection, job_id: str, index: int) -> BlobRef:
    """Return where the line of an item is stored."""
    row = connection.execute(select(ITEMS).where(ITEMS.c.job_id == job_id, ITEMS.c.item_index == index)).one()
    return BlobRef(key=row.payload_key, offset=row.payload_offset, length=row.payload_length)
