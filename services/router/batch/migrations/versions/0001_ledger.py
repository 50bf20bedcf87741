"""The ledger's first tables.

Revision ID: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create jobs and items."""
    zero, empty = sa.text("0"), sa.text("''")
    op.create_table(
        "jobs",
        sa.Column("job_id", sa.String(64), primary_key=True),
        sa.Column("kind", sa.Integer, nullable=False),
        sa.Column("tenant", sa.String(128), nullable=False),
        sa.Column("idempotency_key", sa.String(128), nullable=False),
        sa.Column("content_digest", sa.String(64), nullable=False),
        sa.Column("display_name", sa.String(128), nullable=False),
        sa.Column("line_format", sa.Integer, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("state", sa.Integer, nullable=False),
        sa.Column("created_at_s", sa.Double, nullable=False),
        sa.Column("started_at_s", sa.Double),
        sa.Column("ended_at_s", sa.Double),
        sa.Column("expire_at_s", sa.Double, nullable=False),
        *(
            sa.Column(name, sa.Integer, nullable=False, server_default=zero)
            for name in ("total", "succeeded", "failed", "cancelled", "expired")
        ),
        sa.Column("prompt_tokens", sa.BigInteger, nullable=False, server_default=zero),
        sa.Column("completion_tokens", sa.BigInteger, nullable=False, server_default=zero),
        sa.UniqueConstraint("tenant", "kind", "idempotency_key", name="uq_jobs_submission"),
    )
    op.create_index("ix_jobs_open", "jobs", ["state", "priority", "created_at_s"])
    op.create_index("ix_jobs_tenant", "jobs", ["tenant", "kind", "created_at_s"])
    op.create_table(
        "items",
        sa.Column("job_id", sa.String(64), primary_key=True),
        sa.Column("item_index", sa.Integer, primary_key=True),
        sa.Column("custom_id", sa.String(512), nullable=False),
        sa.Column("prefix_group", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Integer, nullable=False),
        *(sa.Column(name, sa.Integer, nullable=False, server_default=zero) for name in ("attempts", "failures", "token")),
        sa.Column("holder", sa.String(64), nullable=False, server_default=empty),
        *(sa.Column(name, sa.Double, nullable=False, server_default=zero) for name in ("lease_until_s", "not_before_s")),
        sa.Column("payload_key", sa.String(256), nullable=False),
        sa.Column("payload_offset", sa.BigInteger, nullable=False),
        sa.Column("payload_length", sa.Integer, nullable=False),
        sa.Column("result_seq", sa.Integer),
        sa.Column("result_key", sa.String(256)),
        sa.Column("result_offset", sa.BigInteger),
        sa.Column("result_length", sa.Integer),
        sa.Column("ended_at_s", sa.Double),
        sa.Column("completion_tokens", sa.Integer, nullable=False, server_default=zero),
        sa.Column("error_reason", sa.String(64), nullable=False, server_default=empty),
        sa.Column("error_message", sa.String(1024), nullable=False, server_default=empty),
    )
    op.create_index("ix_items_work", "items", ["job_id", "state", "prefix_group", "item_index"])
    op.create_index("ix_items_lease", "items", ["state", "lease_until_s"])
    op.create_index("ix_items_results", "items", ["job_id", "result_seq"])
    op.create_index("ix_items_ended", "items", ["job_id", "ended_at_s"])


def downgrade() -> None:
    """Drop both."""
    op.drop_table("items")
    op.drop_table("jobs")
