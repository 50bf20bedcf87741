"""Alembic's entry: migrations run in the transaction that the ledger opened."""

from alembic import context

from services.router.batch.schema import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
with context.begin_transaction():
    context.run_migrations()
