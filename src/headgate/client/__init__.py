"""The Python client of a headgate server: send events, ask about datasets, lineage, schemas, runs and names.

`HeadgateClient` blocks, `AsyncHeadgateClient` awaits; both have the same methods. They speak HTTP and raise
`headgate.errors`; they know nothing of the database. The API key and the session token stay inside: they are in no
`repr`, no log line and no error.
"""

from headgate.client.asynchronous import AsyncHeadgateClient
from headgate.client.blocking import HeadgateClient
from headgate.client.http import Call, error_of
from headgate.client.ingest import BatchReceipt, BatchSummary, FailedEvent, Receipt
from headgate.client.shapes import (
    ColumnEdge,
    ColumnLineage,
    ColumnRef,
    Dataset,
    DatasetRef,
    Edge,
    Job,
    Lineage,
    Node,
    Page,
    SchemaChange,
    SchemaField,
    SchemaVersion,
)

__all__ = [
    "AsyncHeadgateClient",
    "BatchReceipt",
    "BatchSummary",
    "Call",
    "ColumnEdge",
    "ColumnLineage",
    "ColumnRef",
    "Dataset",
    "DatasetRef",
    "Edge",
    "FailedEvent",
    "HeadgateClient",
    "Job",
    "Lineage",
    "Node",
    "Page",
    "Receipt",
    "SchemaChange",
    "SchemaField",
    "SchemaVersion",
    "error_of",
]
