"""Compiles the Spark agent into src/headgate/spark/jars, one jar for each Scala that Spark is built with.

The compiler is the one inside the pyspark packages, so nothing but Java and pip packages is needed. A jar is
made again only if the sources, the version or the Spark it is compiled against have changed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "spark-agent" / "src"
OUTPUT = ROOT / "src" / "headgate" / "spark" / "jars"
BUILD = ROOT / "build"
LOWEST_JAVA = 17
# Zip knows no earlier date; a fixed one makes equal sources give equal jars.
EPOCH = (1980, 1, 1, 0, 0, 0)


class Target(NamedTuple):
    """One jar: its Scala, the requirement file of the Spark to compile against, and what bytecode to write."""

    scala: str
    requirement: str | None
    flags: tuple[str, ...]

    @property
    def jar(self) -> Path:
        return OUTPUT / f"headgate-spark_{self.scala}.jar"

    @property
    def stamp(self) -> Path:
        return BUILD / "agent" / f"{self.scala}.sha256"


# Spark 3.5 also runs on Java 8, so its jar may call nothing newer; Spark 4 needs Java 17.
TARGETS = (
    Target("2.13", None, ("-release", "17")),
    Target("2.12", "3.5", ("-release", "8")),
)


class CannotBuild(Exception):
    """Something is missing or does not compile; the message is for the person at the terminal."""


class NoJava(CannotBuild):
    """There is no Java here, or none that is new enough."""


def main() -> int:
    arguments = _arguments()
    stale = [target for target in TARGETS if arguments.scala in (None, target.scala) and not _is_current(target)]
    if not stale:
        return 0
    try:
        java = find_java()
        with ThreadPoolExecutor(len(stale)) as threads:
            built = list(threads.map(lambda target: _attempt(java, target), stale))
    except NoJava as error:
        _say(f"the Spark agent was not built: {error}")
        return 0 if arguments.if_java else 1
    failures = [text for text in built if text]
    for text in failures:
        _say(text)
    return 1 if failures else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--scala", choices=[target.scala for target in TARGETS], help="build this one only")
    parser.add_argument("--if-java", action="store_true", help="without Java, say so and succeed")
    return parser.parse_args()


def _attempt(java: Path, target: Target) -> str | None:
    try:
        build(java, target)
    except CannotBuild as error:
        return f"the Spark agent for Scala {target.scala} was not built: {error}"
    return None


def build(java: Path, target: Target) -> None:
    """Compile one jar and put it in place of the old one in a single step."""
    # Taken before compiling: whoever edits meanwhile gets another build the next time.
    digest = _digest(target)
    with tempfile.TemporaryDirectory(prefix="headgate-agent-") as folder:
        classes = Path(folder)
        _compile(java, target, classes)
        (classes / "headgate" / "spark" / "version.properties").write_text(_properties(target))
        _pack(classes, target.jar)
    target.stamp.parent.mkdir(parents=True, exist_ok=True)
    target.stamp.write_text(digest)
    _say(f"built {target.jar.relative_to(ROOT)}")


def _compile(java: Path, target: Target, classes: Path) -> None:
    jars = spark_jars(target)
    command = [
        str(java),
        *("-Xss16m", "-XX:+UseSerialGC", "-cp", f"{jars}{os.sep}*"),
        *("scala.tools.nsc.Main", "-usejavacp", "-nowarn", *target.flags, "-d", str(classes)),
        *(str(path) for path in _sources()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shown = (done.stdout + done.stderr).replace(f"{ROOT}{os.sep}", "").strip()
        raise CannotBuild(f"it does not compile against {jars.relative_to(ROOT)}\n{shown}")


def _pack(classes: Path, jar: Path) -> None:
    jar.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".", suffix=".jar", dir=jar.parent)
    with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for path in classes.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(classes).as_posix(), EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
    Path(name).chmod(0o644)
    # A JVM that has the old jar open goes on with it.
    Path(name).replace(jar)


def spark_jars(target: Target) -> Path:
    """The jars of the Spark to compile against, installed first if it is not the environment's own."""
    home = Path(sys.prefix) if target.requirement is None else install_spark(target.requirement)
    found = next(iter(sorted(home.glob("**/pyspark/jars"))), None)
    if found is None:
        raise CannotBuild(f"{home} holds no pyspark: run `make setup`")
    return found


def install_spark(minor: str) -> Path:
    """Another Spark beside the environment's own: the folder to put on PYTHONPATH, filled on first use."""
    requirement = ROOT / "requirements" / f"spark-{minor}.txt"
    home = BUILD / "spark" / minor
    installed = home / ".installed"
    wanted = requirement.read_text()
    if installed.is_file() and installed.read_text() == wanted:
        return home
    shutil.rmtree(home, ignore_errors=True)
    command = [_uv(), "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--python", sys.executable]
    done = subprocess.run(
        [*command, "--target", str(home), "-r", str(requirement)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise CannotBuild(f"Spark {minor} could not be installed from {requirement.relative_to(ROOT)}\n{done.stderr}")
    installed.write_text(wanted)
    return home


def find_java() -> Path:
    """A Java that is new enough, from JAVA_HOME or the path."""
    home = os.environ.get("JAVA_HOME")
    named = Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "java")
    needed = f"Java {LOWEST_JAVA} or newer is needed (Debian: apt-get install openjdk-17-jre-headless)"
    try:
        told = subprocess.run([str(named), "-version"], capture_output=True, text=True, check=False).stderr
    except OSError:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on the path"
        raise NoJava(f"{needed}; {where}") from None
    version = re.search(r'version "(?:1\.)?(\d+)', told)
    if version is None or int(version[1]) < LOWEST_JAVA:
        raise NoJava(f"{needed}; {named} is {told.strip().splitlines()[0] if told.strip() else 'no Java'}")
    return named


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _uv() -> str:
    beside = Path(sys.executable).parent / "uv"
    return str(beside) if beside.exists() else shutil.which("uv") or "uv"


def _is_current(target: Target) -> bool:
    return target.jar.is_file() and target.stamp.is_file() and target.stamp.read_text() == _digest(target)


def _digest(target: Target) -> str:
    digest = hashlib.sha256(f"{_version()} {_spark_version(target)} {target.flags}".encode())
    for path in [Path(__file__), *_sources()]:
        content = path.read_bytes()
        digest.update(f"\0{path.name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _sources() -> list[Path]:
    return sorted(SOURCES.rglob("*.scala"))


def _properties(target: Target) -> str:
    return f"version={_version()}\nscala={target.scala}\nspark={_spark_version(target)}\n"


def _version() -> str:
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def _spark_version(target: Target) -> str:
    locked = ROOT / "requirements" / (f"spark-{target.requirement}.txt" if target.requirement else "dev.txt")
    found = re.search(r"^pyspark(?:\[[^]]*\])?==(\S+)", locked.read_text(), re.MULTILINE)
    if found is None:
        raise CannotBuild(f"{locked.relative_to(ROOT)} names no pyspark")
    return found[1]


if __name__ == "__main__":
    sys.exit(main())
