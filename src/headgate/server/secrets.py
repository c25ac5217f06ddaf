"""Secrets of organisations at rest: encrypted before they reach the database, decrypted only to be used.

A sealed secret says which key it needs, so that keys can be changed: the first of HEADGATE_SECRET_KEY encrypts, the
others decrypt what is still there. Without one a key is made once and kept in the database, which protects dumps of
single tables and answers of the API, and not against whoever reads all of the database.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import logging
import secrets
from collections.abc import Mapping
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from headgate.errors import ConfigError
from headgate.server.db.pool import Database
from headgate.server.db.queries import Queries
from headgate.settings import Settings

_SECRET_NAME = "channel_encryption_key"
_KEY_BYTES = 32
_NONCE_BYTES = 12
_FORM = "hg1"

_log = logging.getLogger(__name__)
_sql = Queries("headgate.server")


class Vault:
    """Seals and opens the secrets of organisations. Its representation says nothing of its keys."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._loading = asyncio.Lock()
        given = settings.secret_key.get_secret_value() if settings.secret_key else ""
        texts = [part.strip() for part in given.split(",") if part.strip()]
        if any(len(text) < _KEY_BYTES for text in texts):
            _log.warning("HEADGATE_SECRET_KEY is shorter than %d characters and can be guessed", _KEY_BYTES)
        self._given = {_id_of(key): key for key in (hashlib.sha256(text.encode()).digest() for text in texts)}
        self._keys: dict[str, bytes] = {}

    def __repr__(self) -> str:
        return f"Vault({len(self._given)} keys given)"

    async def ready(self) -> None:
        """Read the keys, so that what follows needs no connection."""
        await self._all()

    async def seal(self, organization_id: UUID, secret: str) -> str:
        """The secret, encrypted for this organisation alone."""
        keys = await self._all()
        key_id, key = next(iter(keys.items()))
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = AESGCM(key).encrypt(nonce, secret.encode(), organization_id.bytes)
        return f"{_FORM}.{key_id}.{base64.urlsafe_b64encode(nonce + sealed).decode()}"

    async def open(self, organization_id: UUID, sealed: str) -> str:
        """What was sealed; ConfigError if its key is not here or it is not this organisation's."""
        form, _, rest = sealed.partition(".")
        key_id, _, text = rest.partition(".")
        key = (await self._all()).get(key_id)
        if form != _FORM or key is None:
            raise ConfigError(
                f"a secret was encrypted with the key {key_id!r}, which this server does not have",
                hint="add the key to HEADGATE_SECRET_KEY after the new one, or set the secret of the channel again",
            )
        try:
            raw = base64.urlsafe_b64decode(text)
            return AESGCM(key).decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], organization_id.bytes).decode()
        except (InvalidTag, binascii.Error, ValueError):
            raise ConfigError(
                "a secret in the database was changed, or is another organisation's",
                hint="set the secret of the channel again",
            ) from None

    async def _all(self) -> Mapping[str, bytes]:
        """Every key by its id, the one that encrypts first."""
        if not self._keys:
            async with self._loading:
                if not self._keys:
                    stored = await self._load()
                    self._keys = {**self._given, **({_id_of(stored): stored} if stored else {})}
        return self._keys

    async def _load(self) -> bytes | None:
        async with self._database.transaction() as conn:
            if not self._given:
                # Two servers may start at once: the first insert wins, and both read what is there.
                await conn.execute(_sql.create_secret, _SECRET_NAME, secrets.token_bytes(_KEY_BYTES))
            found = await conn.fetchval(_sql.find_secret, _SECRET_NAME)
        return None if found is None else bytes(found)


def _id_of(key: bytes) -> str:
    return hashlib.sha256(b"headgate key id" + key).hexdigest()[:8]
