"""The files of an embedded cluster: where it lies, making it, its settings, its socket directory, its log.

Knows files only; processes belong to `postmaster.py`, programs to `programs.py`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from headgate.durable import sync_folder
from headgate.errors import EmbeddedPostgresError
from headgate.server.db.postmaster import find_postmaster, kill, processes_naming, terminate
from headgate.server.db.programs import PORT, SHARED, SUPERUSER, Account, Programs, shared_directory

LOG_LIMIT_BYTES = 10_000_000
# sun_path holds 107 bytes on Linux and 103 on macOS; the smaller one suits both.
SOCKET_PATH_BYTES = 103

_INCLUDE = "include 'headgate.conf'"
_HINTS = {
    "No space left on device": "free some disk space and start again; nothing half-made is kept",
    "invalid permissions": "run `chmod 700` on the pgdata directory and start again",
    "wrong ownership": "start headgate as the user who owns the directory",
    "Permission denied": "give the user who runs PostgreSQL access, or choose another data directory",
    "configuration": "correct the setting that the log names and start again",
}


def hint_for(text: str) -> str:
    return next((hint for sign, hint in _HINTS.items() if sign in text), "correct what it names and start again")


def cluster_of(directory: Path) -> Path:
    return (directory / "pgdata").resolve()


def place(directory: Path, account: Account) -> Path:
    """Where the cluster is or will be: inside `directory`, or behind a link where the server can reach it."""
    link, cluster = directory / "pgdata", cluster_of(directory)
    if link.is_symlink():
        _refuse_lost(link, cluster)
    elif not link.exists() and not account.can_reach(directory):
        # The parents are the user's, so they are not opened with chmod. A random name meets no old cluster.
        cluster = shared_directory("cluster-") / "pgdata"
        link.symlink_to(cluster)
    if is_shared(cluster):
        (cluster.parent / "origin").write_text(str(directory))
    return cluster


def _refuse_lost(link: Path, cluster: Path) -> None:
    if not cluster.parent.is_dir():
        raise EmbeddedPostgresError(
            f"{str(link)!r} points to {str(cluster)!r}, which is gone",
            hint="restore it, or delete the link to begin with an empty database",
        )


def is_shared(cluster: Path) -> bool:
    return cluster.parent.parent == SHARED


def stop_abandoned(directory: Path, cluster: Path) -> None:
    """Stop a server whose data directory was deleted and made again: it would run unseen for ever."""
    for origin in SHARED.glob("cluster-*/origin") if os.geteuid() == 0 else ():
        other = origin.parent / "pgdata"
        if other != cluster and origin.read_text() == str(directory) and (server := find_postmaster(other)):
            terminate(server, other, 5)


def is_initialised(cluster: Path) -> bool:
    if (cluster / "PG_VERSION").is_file():
        return True
    if cluster.is_file() or (cluster.is_dir() and any(cluster.iterdir())):
        raise EmbeddedPostgresError(
            f"{str(cluster)!r} is in the way: it is not a PostgreSQL cluster",
            hint="move it away, or choose another data directory",
        )
    return False


def initialise(cluster: Path, programs: Programs, deadline: float) -> None:
    """Make the cluster beside its place and move it there whole, so that a crash never leaves half of one."""
    for stale in cluster.parent.glob("pgdata.init-*"):
        _remove_stale(stale)
    temporary = Path(tempfile.mkdtemp(prefix="pgdata.init-", dir=cluster.parent))
    try:
        programs.account.own(temporary)
        done = programs.run(
            *("initdb", *_initdb_options(temporary, programs.major())),
            timeout_s=max(deadline - time.monotonic(), 1),
        )
        if done.returncode:
            raise EmbeddedPostgresError(
                f"initdb failed for {str(cluster)!r}:\n{last_lines(done.stdout)}", hint=hint_for(done.stdout)
            )
        temporary.rename(cluster)
        sync_folder(cluster.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _remove_stale(folder: Path) -> None:
    """Remove what an interrupted initdb left. A child of it may write on for a moment after it is gone."""
    for _ in range(40):
        kill(processes_naming(folder))
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.05)


def _initdb_options(target: Path, major: int) -> list[str]:
    options = [f"--pgdata={target}", f"--username={SUPERUSER}", "--data-checksums"]
    options += ["--auth-local=trust", "--auth-host=reject", "--encoding=UTF8", "--locale=C"]
    # Sorts like C on every machine, and still knows upper and lower case beyond ASCII.
    return options + (["--locale-provider=builtin", "--builtin-locale=C.UTF-8"] if major >= 17 else [])


def check_version(cluster: Path, programs: Programs) -> None:
    found, expected = (cluster / "PG_VERSION").read_text().strip(), str(programs.major())
    if found != expected:
        raise EmbeddedPostgresError(
            f"{str(cluster)!r} was made by PostgreSQL {found}, and this is PostgreSQL {expected}",
            hint=f"dump it with PostgreSQL {found} and restore into an empty data directory, "
            f"or set HEADGATE_DATABASE_URL to a PostgreSQL {found} server that serves it",
        )


def configure(cluster: Path, settings: Mapping[str, str], sockets: Path, account: Account) -> None:
    """Write the managed settings; `postgresql.conf` only includes them, so later versions can change them."""
    private = {"listen_addresses": "", "port": str(PORT), "unix_socket_permissions": "0700"}
    values = {**settings, **private, "unix_socket_directories": str(sockets)}
    if wrong := [name for name in values if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name)]:
        raise EmbeddedPostgresError(
            f"{wrong[0]!r} is not the name of a PostgreSQL setting", hint="use letters, digits, '_' and '.'"
        )
    lines = [f"{name} = '{_escaped(value)}'" for name, value in values.items()]
    _write(cluster / "headgate.conf", "\n".join(["# Written at every start.", *lines, ""]), account)
    main = (cluster / "postgresql.conf").read_text()
    if _INCLUDE not in main.splitlines():
        _write(cluster / "postgresql.conf", f"{main.rstrip()}\n\n{_INCLUDE}\n", account)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n")


def _write(path: Path, text: str, account: Account) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    with os.fdopen(handle, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(handle)
    account.own(Path(name))
    Path(name).replace(path)


def socket_directory(directory: Path, cluster: Path, account: Account) -> Path:
    """The cluster itself, which is private; or a short private directory where its path does not fit."""
    if _fits_socket(cluster):
        return cluster
    record = directory / "socket_dir"
    if record.exists() and _is_private(Path(record.read_text()), account):
        return Path(record.read_text())
    made = _short_directory(account)
    account.own(made)
    record.write_text(str(made))
    return made


def _short_directory(account: Account) -> Path:
    if account.is_other:
        made = shared_directory("hg-")
        made.chmod(0o700)
        return made
    usual = Path(tempfile.gettempdir())
    return Path(tempfile.mkdtemp(prefix="hg-", dir=usual if _fits_socket(usual / "hg-12345678") else "/tmp"))


def _fits_socket(directory: Path) -> bool:
    # Commas and quotes mean something in connection strings and settings: such paths do not fit either.
    path = str(directory / f".s.PGSQL.{PORT}")
    return len(os.fsencode(path)) <= SOCKET_PATH_BYTES and re.fullmatch(r"[A-Za-z0-9_/.+=-]+", path) is not None


def _is_private(directory: Path, account: Account) -> bool:
    """Whether it is ours alone: in a shared place, the name may be another's after it was cleaned up."""
    try:
        found = directory.lstat()
    except OSError:
        return False
    private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o700
    return private and found.st_uid == account.uid


def forget_socket_directory(directory: Path) -> None:
    record = directory / "socket_dir"
    if record.exists():
        with contextlib.suppress(OSError):
            Path(record.read_text()).rmdir()
        record.unlink()


def rotate(log: Path) -> None:
    if log.exists() and log.stat().st_size > LOG_LIMIT_BYTES:
        log.replace(log.with_name(f"{log.name}.1"))


def tail(log: Path, offset: int = 0) -> str:
    """The last lines of the log, none of them from before `offset`."""
    if not log.exists():
        return "(no log)"
    with log.open("rb") as file:
        file.seek(max(offset, log.stat().st_size - 16_384))
        return last_lines(file.read().decode(errors="replace"))


def last_lines(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-12:]) or "(nothing)"
