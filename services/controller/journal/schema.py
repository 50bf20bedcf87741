"""Tables of the journal."""

from sqlalchemy import Boolean, Column, Float, Index, Integer, MetaData, Table, Text

METADATA = MetaData()

# One row for each start of a controller; its number is the term.
TERMS = Table(
    "terms",
    METADATA,
    Column("term", Integer, primary_key=True, autoincrement=True),
    Column("controller_id", Text, nullable=False),
    Column("started_at_s", Float, nullable=False),
    Column("settings", Text, nullable=False),
    sqlite_autoincrement=True,
)

# `record` is the whole DecisionRecord as JSON; the other columns are for filters and for people.
DECISIONS = Table(
    "decisions",
    METADATA,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("decision_id", Text, nullable=False, unique=True),
    Column("decided_at_s", Float, nullable=False),
    Column("engine_id", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("result", Text, nullable=False),
    Column("is_change", Boolean, nullable=False),
    Column("record", Text, nullable=False),
    sqlite_autoincrement=True,
)
Index("decisions_by_engine", DECISIONS.c.engine_id, DECISIONS.c.seq)
Index("decisions_by_time", DECISIONS.c.decided_at_s)

# What the controller remembers of each engine, as JSON.
MEMORIES = Table(
    "memories",
    METADATA,
    Column("engine_id", Text, primary_key=True),
    Column("saved_at_s", Float, nullable=False),
    Column("memory", Text, nullable=False),
)

# Overrides in force, as JSON.
OVERRIDES = Table(
    "overrides",
    METADATA,
    Column("engine_id", Text, primary_key=True),
    Column("override", Text, nullable=False),
)

# The pause: one row with id 1, or none.
PAUSES = Table("pauses", METADATA, Column("id", Integer, primary_key=True), Column("pause", Text, nullable=False))

# Everything that operators asked for, in order.
ORDERS = Table(
    "orders",
    METADATA,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("at_s", Float, nullable=False),
    Column("kind", Text, nullable=False),
    Column("engine_id", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("detail", Text, nullable=False),
    sqlite_autoincrement=True,
)
