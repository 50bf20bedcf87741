"""Tables of the ledger, for SQLite and PostgreSQL alike. Changes go through migrations/."""

from sqlalchemy import BigInteger, Column, Double, Index, Integer, MetaData, String, Table, UniqueConstraint, text

METADATA = MetaData()

JOBS = Table(
    "jobs",
    METADATA,
    Column("job_id", String(64), primary_key=True),
    Column("kind", Integer, nullable=False),
    Column("tenant", String(128), nullable=False),
    Column("idempotency_key", String(128), nullable=False),
    Column("content_digest", String(64), nullable=False),
    Column("display_name", String(128), nullable=False),
    Column("line_format", Integer, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("state", Integer, nullable=False),
    Column("created_at_s", Double, nullable=False),
    Column("started_at_s", Double),
    Column("ended_at_s", Double),
    Column("expire_at_s", Double, nullable=False),
    Column("total", Integer, nullable=False, server_default=text("0")),
    Column("succeeded", Integer, nullable=False, server_default=text("0")),
    Column("failed", Integer, nullable=False, server_default=text("0")),
    Column("cancelled", Integer, nullable=False, server_default=text("0")),
    Column("expired", Integer, nullable=False, server_default=text("0")),
    Column("prompt_tokens", BigInteger, nullable=False, server_default=text("0")),
    Column("completion_tokens", BigInteger, nullable=False, server_default=text("0")),
    UniqueConstraint("tenant", "kind", "idempotency_key", name="uq_jobs_submission"),
    Index("ix_jobs_open", "state", "priority", "created_at_s"),
    Index("ix_jobs_tenant", "tenant", "kind", "created_at_s"),
)

ITEMS = Table(
    "items",
    METADATA,
    Column("job_id", String(64), primary_key=True),
    Column("item_index", Integer, primary_key=True),
    Column("custom_id", String(512), nullable=False),
    Column("prefix_group", BigInteger, nullable=False),
    Column("state", Integer, nullable=False),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("failures", Integer, nullable=False, server_default=text("0")),
    # Grows with each claim; a settlement must bring the newest.
    Column("token", Integer, nullable=False, server_default=text("0")),
    Column("holder", String(64), nullable=False, server_default=text("''")),
    Column("lease_until_s", Double, nullable=False, server_default=text("0")),
    Column("not_before_s", Double, nullable=False, server_default=text("0")),
    Column("payload_key", String(256), nullable=False),
    Column("payload_offset", BigInteger, nullable=False),
    Column("payload_length", Integer, nullable=False),
    # Place among the job's ended items, from 0; set when the item ends.
    Column("result_seq", Integer),
    Column("result_key", String(256)),
    Column("result_offset", BigInteger),
    Column("result_length", Integer),
    Column("ended_at_s", Double),
    Column("completion_tokens", Integer, nullable=False, server_default=text("0")),
    Column("error_reason", String(64), nullable=False, server_default=text("''")),
    Column("error_message", String(1024), nullable=False, server_default=text("''")),
    Index("ix_items_work", "job_id", "state", "prefix_group", "item_index"),
    Index("ix_items_lease", "state", "lease_until_s"),
    Index("ix_items_results", "job_id", "result_seq"),
    Index("ix_items_ended", "job_id", "ended_at_s"),
)
