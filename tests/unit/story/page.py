"""Reads a story back: its tags, texts and links, and whether every tag is closed where it should be."""

from __future__ import annotations

from html.parser import HTMLParser

_VOID = frozenset({"meta", "br", "hr", "img", "input", "link", "wbr"})


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.problems: list[str] = []
        self._open: list[str] = []
        self._texts: list[str] = []
        self._headings: list[tuple[str, list[str]]] = []
        self.feed(text)
        self.close()
        self.problems += [f"<{tag}> stays open" for tag in self._open]

    @property
    def text(self) -> str:
        """All that a reader sees, with single spaces."""
        return " ".join("".join(self._texts).split())

    @property
    def headings(self) -> list[tuple[str, str]]:
        return [(tag, " ".join("".join(parts).split())) for tag, parts in self._headings]

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if len(dict(attrs)) != len(attrs):
            self.problems.append(f"<{tag}> has an attribute twice")
        if tag in ("h1", "h2", "h3", "h4"):
            self._headings.append((tag, []))
        if tag not in _VOID:
            self._open.append(tag)
        if tag in ("td", "th", "li", "dt", "dd", "p", "small", "text", "title"):
            self._texts.append(" ")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1] != tag:
            self.problems.append(f"</{tag}> at {self.getpos()} closes {self._open[-1:] or 'nothing'}")
        else:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self._texts.append(data)
        if any(tag in self._open for tag in ("h1", "h2", "h3", "h4")):
            self._headings[-1][1].append(data)
