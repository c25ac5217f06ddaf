"""Which Spark a job would run on, and its version, without starting a JVM."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from headgate.errors import ConfigError

_CORE = re.compile(r"spark-core_(\d+\.\d+)-(.+)\.jar")
_ASK = "import importlib.util as u; s = u.find_spec('pyspark'); print(s.origin if s and s.origin else '')"


@dataclass(frozen=True)
class Spark:
    """An installation: its folder, its version, and the Scala it is built with."""

    home: Path
    version: str
    scala: str

    @property
    def submit(self) -> Path:
        return self.home / "bin" / "spark-submit"


def spark_at(home: Path) -> Spark:
    """The Spark in a folder, as the name of its own core jar tells."""
    for path in sorted((home / "jars").glob("spark-core_*.jar")):
        if found := _CORE.fullmatch(path.name):
            return Spark(home, version=found[2], scala=found[1])
    if (home / "sql" / "connect").is_dir():
        raise ConfigError(
            f"the Spark in {str(home)!r} is a Spark Connect client without a JVM",
            hint="configure the agent on the Spark Connect server: `headgate spark conf` prints what to add there",
        )
    raise ConfigError(
        f"{str(home)!r} holds no Spark: there is no jars/spark-core_*.jar",
        hint="set SPARK_HOME to a Spark installation, or unset it to use the pyspark of the interpreter",
    )


def spark_of_python(python: Path | None, environ: Mapping[str, str] = os.environ) -> Spark:
    """The Spark that a script run by this interpreter gets: SPARK_HOME, else the pyspark it imports."""
    if environ.get("SPARK_HOME"):
        return spark_at(Path(environ["SPARK_HOME"]))
    home = pyspark_of(python, environ)
    if home is None:
        raise ConfigError(
            f"{str(python or sys.executable)!r} has no pyspark",
            hint="install it there (pip install pyspark), name another interpreter with --python, or set SPARK_HOME",
        )
    return spark_at(home)


def spark_of_submit(environ: Mapping[str, str] = os.environ) -> Spark:
    """The Spark whose spark-submit a user would get: SPARK_HOME, the path, then this interpreter's pyspark."""
    if environ.get("SPARK_HOME"):
        return spark_at(Path(environ["SPARK_HOME"]))
    found = shutil.which("spark-submit", path=environ.get("PATH"))
    home = _home_of(Path(found), environ) if found else pyspark_of(None, environ)
    if home is None:
        raise ConfigError(
            "no spark-submit is found: SPARK_HOME is not set, none is on the path, and there is no pyspark here",
            hint="set SPARK_HOME, or pip install pyspark",
        )
    return spark_at(home)


def python_for(named: str | None, environ: Mapping[str, str] = os.environ) -> Path:
    """The interpreter of a job: the named one, else this one if it has pyspark, else the first on the path."""
    if named is not None:
        found = shutil.which(named, path=environ.get("PATH"))
        if found is None:
            raise ConfigError(f"there is no interpreter {named!r}", hint="--python takes a path or a name on the path")
        return Path(found)
    this = Path(sys.executable)
    candidates = (shutil.which(name, path=environ.get("PATH")) for name in ("python", "python3"))
    others = [Path(found) for found in candidates if found]
    return next((python for python in [this, *others] if pyspark_of(python, environ)), others[0] if others else this)


def pyspark_of(python: Path | None, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The folder of the pyspark that an interpreter would import; None if it has none."""
    if python is None or python == Path(sys.executable):
        spec = find_spec("pyspark")
        origin = spec.origin if spec else None
    else:
        told = subprocess.run([str(python), "-c", _ASK], env=dict(environ), capture_output=True, text=True, check=False)
        origin = told.stdout.strip() or None
    return Path(origin).parent if origin else None


def java_of(environ: Mapping[str, str] = os.environ) -> Path:
    """The Java that Spark would start."""
    home = environ.get("JAVA_HOME")
    named = Path(home) / "bin" / "java" if home else Path(shutil.which("java", path=environ.get("PATH")) or "java")
    if os.access(named, os.X_OK):
        return named
    where = f"JAVA_HOME is {home!r}, which has no bin/java" if home else "there is no java on the path"
    raise ConfigError(f"Spark needs Java, and {where}", hint="install Java 17, or set JAVA_HOME to where it is")


def _home_of(submit: Path, environ: Mapping[str, str]) -> Path | None:
    """The Spark that a spark-submit belongs to; pip puts a copy of it beside the interpreter."""
    home = submit.resolve().parent.parent
    if (home / "jars").is_dir():
        return home
    beside = submit.parent / "python"
    return pyspark_of(beside if beside.exists() else None, environ)
