"""Payloads and results as objects: a local folder, S3, GCS or Azure through obstore."""

from collections.abc import AsyncIterator
from pathlib import Path

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, ObjectStore, from_url

from services.router.batch.domain import BlobRef, StoreUnavailableError

# A lister asks for pages of this many keys.
_LIST_CHUNK = 1000


class BlobStore:
    """Objects are written whole and never changed. Every method raises StoreUnavailableError where the store fails."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def write(self, key: str, content: bytes) -> None:
        """Store an object; when this returns it is durable as far as the store promises it."""
        try:
            await obstore.put_async(self._store, key, content)
        except BaseError as error:
            raise StoreUnavailableError(f"object store: {key}: {error}") from error

    async def read(self, ref: BlobRef) -> bytes:
        """Return a part of an object."""
        try:
            return bytes(await obstore.get_range_async(self._store, ref.key, start=ref.offset, length=ref.length))
        except BaseError as error:
            raise StoreUnavailableError(f"object store: {ref.key}: {error}") from error

    async def delete(self, keys: list[str]) -> None:
        """Remove objects; those that are not there are no error."""
        try:
            await obstore.delete_async(self._store, keys)
        except FileNotFoundError:
            return
        except BaseError as error:
            raise StoreUnavailableError(f"object store: delete: {error}") from error

    async def list_keys(self, prefix: str) -> AsyncIterator[tuple[str, float]]:
        """Yield (key, wall time of the last change in seconds) of every object under a prefix."""
        try:
            async for page in obstore.list(self._store, prefix, chunk_size=_LIST_CHUNK):
                for entry in page:
                    yield entry["path"], entry["last_modified"].timestamp()
        except BaseError as error:
            raise StoreUnavailableError(f"object store: list {prefix}: {error}") from error


def open_store(location: str) -> BlobStore:
    """Open a store by URL ("s3://bucket/prefix", "gs://…", "az://…", with credentials as the cloud's own tools find them) or by
    the path of a local folder, made where it is missing. Raises StoreUnavailableError."""
    try:
        if "://" in location:
            return BlobStore(from_url(location))
        folder = Path(location)
        folder.mkdir(parents=True, exist_ok=True)
        return BlobStore(LocalStore(folder))
    except (BaseError, OSError, ValueError) as error:
        raise StoreUnavailableError(f"object store {location}: {error}") from error
