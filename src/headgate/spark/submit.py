"""The command line of spark-submit: reads it as Spark does, and adds the agent before the application.

Knows nothing of processes. What the user has set by options, by a properties file or by spark-defaults.conf stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headgate.spark import properties
from headgate.spark.compose import JARS_KEY, with_agent

_SWITCHES = frozenset({"--supervise", "--verbose", "-v", "--usage-error", "--load-spark-defaults"})
# They ask about an application or about Spark itself; no job is started.
_QUESTIONS = frozenset({"--help", "-h", "--version", "--kill", "--status"})


@dataclass(frozen=True)
class Submission:
    """A spark-submit command line: options with their values, then the application and its arguments."""

    options: list[tuple[str, str | None]]
    application: list[str]

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> Submission:
        options: list[tuple[str, str | None]] = []
        rest = list(arguments)
        while rest and rest[0].startswith("-"):
            name, joined, value = rest.pop(0).partition("=")
            if joined and name.startswith("--"):
                options.append((name, value))
            elif joined or name in _SWITCHES or name in _QUESTIONS - {"--kill", "--status"} or not rest:
                options.append((f"{name}{joined}{value}", None))
            else:
                options.append((name, rest.pop(0)))
        return cls(options, rest)

    @property
    def is_question(self) -> bool:
        return any(name in _QUESTIONS for name, _ in self.options)

    @property
    def is_in_cluster(self) -> bool:
        """Whether the driver runs on another machine, as far as the options tell."""
        return self._last("--deploy-mode") == "cluster" or self.conf.get("spark.submit.deployMode") == "cluster"

    @property
    def conf(self) -> dict[str, str]:
        """What the options set, with --jars under the key that it stands for."""
        pairs = [value.partition("=") for name, value in self.options if name in ("--conf", "-c") and value]
        found = {key.strip(): value.strip() for key, _, value in pairs}
        jars = self._last("--jars")
        return found if jars is None else found | {JARS_KEY: jars}

    def effective(self, defaults: Callable[[], Mapping[str, str]]) -> dict[str, str]:
        """The whole configuration of the job, as Spark would put it together."""
        named = self._last("--properties-file")
        from_file = properties.read(Path(named)) if named else {}
        if named is None or ("--load-spark-defaults", None) in self.options:
            from_file = dict(defaults()) | from_file
        return from_file | self.conf

    def with_agent(
        self, jar: Path, settings: Mapping[str, str], defaults: Callable[[], Mapping[str, str]]
    ) -> list[str]:
        """The same command line with the agent; its options come last, where they count."""
        before = self.effective(defaults)
        after = with_agent(before, jar, settings)
        added = {key: value for key, value in after.items() if before.get(key) != value and key != JARS_KEY}
        given = [part for option in self.options for part in option if part is not None]
        ours = [part for key, value in added.items() for part in ("--conf", f"{key}={value}")]
        return [*given, "--jars", after[JARS_KEY], *ours, *self.application]

    def _last(self, name: str) -> str | None:
        return next((value for option, value in reversed(self.options) if option == name), None)
