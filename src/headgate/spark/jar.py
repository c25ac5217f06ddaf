"""Which of the agent's jars a Spark takes: one for each Scala that Spark is built with."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from headgate.errors import ConfigError

FOLDER = Path(__file__).parent / "jars"
LOWEST_SPARK = (3, 5)
_SCALA_OF_SPARK_4 = "2.13"
_NAME = re.compile(r"headgate-spark_(\d+\.\d+)\.jar")


def jar_path(spark_version: str, scala: str | None = None, *, folder: Path = FOLDER) -> Path:
    """The agent's jar for a version of Spark, which may tell the Scala that it is built with."""
    minor = _minor_of(spark_version)
    if minor < LOWEST_SPARK:
        raise ConfigError(
            f"Spark {spark_version} is older than what the agent supports",
            hint="run the job on Spark 3.5 or newer; older ones can send lineage with openlineage-spark",
        )
    served = "2.12" if minor < (4, 0) else _SCALA_OF_SPARK_4
    wanted = scala or served
    if wanted != served:
        # The jar for 2.13 is made for Spark 4, whose classes are not those of 3.5.
        raise ConfigError(
            f"the agent does not serve Spark {spark_version} with Scala {wanted!r}",
            hint=f"run a Spark {minor[0]}.{minor[1]} that is built with Scala {served}, or Spark 4",
        )
    return _existing(f"Spark {spark_version}", wanted, folder)


def available(folder: Path = FOLDER) -> list[str]:
    """The Scala versions that there are jars for."""
    return sorted(_scalas(path.name for path in folder.glob("*.jar")))


def scala_of(spark_jars: Path) -> str | None:
    """The Scala that a Spark installation is built with, as its own library says."""
    for path in sorted(spark_jars.glob("scala-library-*.jar")):
        found = re.match(r"scala-library-(\d+\.\d+)\.", path.name)
        if found:
            return found[1]
    return None


def _existing(spark: str, scala: str, folder: Path) -> Path:
    path = folder / f"headgate-spark_{scala}.jar"
    if path.is_file():
        return path
    there = available(folder)
    known = f"there are jars for Scala {', '.join(there)}" if there else "there are none"
    built = "in a checkout, `make agent` builds it" if not there else "give another --scala, or run another Spark"
    raise ConfigError(f"no agent jar for {spark} with Scala {scala!r} in {str(folder)!r}: {known}", hint=built)


def _minor_of(version: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)(?:\.|$|[-+a-z])", version)
    if found is None:
        raise ConfigError(f"{version!r} is not a version of Spark", hint="give it as in 3.5.9 or 4.2")
    return int(found[1]), int(found[2])


def _scalas(names: Iterable[str]) -> Iterable[str]:
    return (found[1] for name in names if (found := _NAME.fullmatch(name)))
