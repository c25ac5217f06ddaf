"""The documentation pages work offline: everything they load comes from this server."""

from __future__ import annotations

import re

import pytest

from tests.support.server import Server


@pytest.mark.parametrize("page", ["/docs", "/redoc"])
async def test_documentation_page_loads_nothing_from_elsewhere(server: Server, page: str) -> None:
    async with server.anonymous() as client:
        html = await client.get(page)
        assert html.status_code == 200
        loaded = re.findall(r'(?:src|href)="([^"]+)"', html.text)
        assert loaded
        for address in loaded:
            assert address.startswith("/"), address
            assert (await client.get(address)).status_code == 200, address
