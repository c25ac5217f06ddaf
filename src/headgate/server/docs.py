"""The API documentation pages, with scripts served from here: they work without the internet."""

from __future__ import annotations

from importlib import resources

from fastapi import FastAPI
from fastapi.openapi.docs import get_redoc_html, get_swagger_ui_html
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles

STATIC = "/static/docs"


def add_docs(api: FastAPI) -> None:
    """Serve /docs and /redoc for this application."""
    # Only the package's files are used; its own application class would serve them under one path of its choice.
    folder = resources.files("fastapi_offline").joinpath("static")
    api.mount(STATIC, StaticFiles(directory=str(folder)), name="docs-static")
    icon = f"{STATIC}/favicon.png"

    @api.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url="/openapi.json",
            title="Headgate API",
            swagger_js_url=f"{STATIC}/swagger-ui-bundle.js",
            swagger_css_url=f"{STATIC}/swagger-ui.css",
            swagger_favicon_url=icon,
        )

    @api.get("/redoc", include_in_schema=False)
    async def redoc() -> HTMLResponse:
        return get_redoc_html(
            openapi_url="/openapi.json",
            title="Headgate API",
            redoc_js_url=f"{STATIC}/redoc.standalone.js",
            redoc_favicon_url=icon,
            with_google_fonts=False,
        )
