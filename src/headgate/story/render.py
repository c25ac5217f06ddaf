"""A story as one HTML file. Templates decide how it looks; what is said is decided by the modules beside."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from headgate.pipelines.record import NodeRecord, RunRecord, Status
from headgate.story import figures
from headgate.story.cards import anchors, cards
from headgate.story.changes import changes
from headgate.story.facts import Story
from headgate.story.graph import picture
from headgate.story.headline import headline

_ORDER = (Status.failed, Status.stopped, Status.skipped, Status.published)


@dataclass(frozen=True)
class _Pipeline:
    name: str
    tally: tuple[tuple[Status, int], ...]
    rows_in: int
    rows_quarantined: int
    rows_published: int


def render(story: Story) -> str:
    """The whole story; the same facts always give the same text."""
    run, named = story.run, anchors(story.run)
    return (
        _templates()
        .get_template("story.html.j2")
        .render(
            story=story,
            run=run,
            headline=headline(run),
            owners=_owners(run),
            tally=_tally(run.nodes),
            took=figures.duration(figures.elapsed_s(run.started_at, run.ended_at)),
            server_url=_link(story.server_url),
            changes=None if story.previous is None else changes(run, story.previous),
            picture=picture(story, named),
            cards=cards(run, named),
            pipelines=_pipelines(run),
        )
    )


@cache
def _templates() -> Environment:
    env = Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    for name in ("number", "percent", "duration", "instant", "size", "plain", "count", "cut"):
        env.filters[name] = getattr(figures, name)
    env.filters["soft"] = _soft
    env.filters["iso"] = lambda at: figures.utc(at).isoformat()
    return env


def _source(name: str) -> str:
    return files("headgate.story").joinpath("templates", name).read_text(encoding="utf-8")


def _soft(name: str) -> Markup:
    """A name that may break where its parts meet."""
    return Markup("<wbr>").join(escape(part) for part in re.split(r"(?<=[._/])", name))


def _owners(run: RunRecord) -> str:
    return ", ".join(dict.fromkeys(node.owner for node in run.nodes if node.owner))


def _tally(nodes: Sequence[NodeRecord]) -> tuple[tuple[Status, int], ...]:
    found = Counter(node.status for node in nodes)
    return tuple((status, found[status]) for status in _ORDER if found[status])


def _pipelines(run: RunRecord) -> list[_Pipeline]:
    names = dict.fromkeys([*run.pipelines, *(node.pipeline for node in run.nodes)])
    return [_pipeline(name, [node for node in run.nodes if node.pipeline == name]) for name in names]


def _pipeline(name: str, nodes: Sequence[NodeRecord]) -> _Pipeline:
    return _Pipeline(
        name,
        _tally(nodes),
        sum(node.rows_in for node in nodes),
        sum(node.rows_quarantined for node in nodes),
        sum(node.rows_published for node in nodes),
    )


def _link(url: str | None) -> str | None:
    """Only what a browser opens as a page: a record may come from anywhere."""
    return url if url is not None and url.startswith(("http://", "https://")) else None
