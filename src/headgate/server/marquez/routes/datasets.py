"""Datasets and their versions."""

from __future__ import annotations

from uuid import UUID

from fastapi.responses import Response

from headgate.errors import NotFound
from headgate.server.deps import Reads
from headgate.server.marquez.datasets import DatasetStore
from headgate.server.marquez.lookup import Tenant, find_dataset, find_namespace
from headgate.server.marquez.requests import PREFIX, TAG, DatasetName, NamespaceName, Windowed, answer
from headgate.server.marquez.schemas import DatasetList, DatasetOut, DatasetVersionList, DatasetVersionOut
from headgate.server.problems import problems
from headgate.server.routing import new_router

router = new_router(PREFIX, TAG)
_DATASET = "/namespaces/{namespace}/datasets/{dataset}"


@router.get("/namespaces/{namespace}/datasets", response_model=DatasetList, responses=problems(NotFound))
async def list_datasets(namespace: NamespaceName, reads: Reads, window: Windowed) -> Response:
    """Datasets of a namespace, by name."""
    async with reads.open() as conn:
        tenant = Tenant(conn, reads.organization_id)
        found = await find_namespace(tenant, namespace, of_data=True)
        datasets, total = await DatasetStore(tenant).page(found["namespace"], window)
    return answer({"datasets": datasets, "totalCount": total})


@router.get(_DATASET, response_model=DatasetOut, responses=problems(NotFound))
async def get_dataset(namespace: NamespaceName, dataset: DatasetName, reads: Reads) -> Response:
    """One dataset, by any name that a producer gave it."""
    async with reads.open() as conn:
        tenant = Tenant(conn, reads.organization_id)
        dataset_id = await find_dataset(tenant, [(namespace, dataset)])
        return answer((await DatasetStore(tenant).details([dataset_id]))[0])


@router.get(f"{_DATASET}/versions", response_model=DatasetVersionList, responses=problems(NotFound))
async def list_dataset_versions(
    namespace: NamespaceName, dataset: DatasetName, reads: Reads, window: Windowed
) -> Response:
    """Versions of the dataset's schema, newest first."""
    async with reads.open() as conn:
        tenant = Tenant(conn, reads.organization_id)
        dataset_id = await find_dataset(tenant, [(namespace, dataset)])
        versions, total = await DatasetStore(tenant).versions(dataset_id, window)
    return answer({"versions": versions, "totalCount": total})


@router.get(f"{_DATASET}/versions/{{version}}", response_model=DatasetVersionOut, responses=problems(NotFound))
async def get_dataset_version(namespace: NamespaceName, dataset: DatasetName, version: UUID, reads: Reads) -> Response:
    """One version of the dataset's schema."""
    async with reads.open() as conn:
        tenant = Tenant(conn, reads.organization_id)
        dataset_id = await find_dataset(tenant, [(namespace, dataset)])
        return answer(await DatasetStore(tenant).version(dataset_id, version))
