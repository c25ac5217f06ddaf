"""The few things a publish needs of a file system, and this machine's own disks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from headgate.durable import sync_folder

# File systems that rename a folder in one step; all that is not known to is taken for an object store.
_RENAMING = ("file", "hdfs", "webhdfs", "swebhdfs", "viewfs", "abfs", "abfss", "maprfs", "ofs", "o3fs")


class Files(Protocol):
    """A file system whose renames within it are cheap. Paths are text, as the engine gives them."""

    def exists(self, path: str) -> bool: ...

    def folders_in(self, path: str) -> list[str]:
        """Paths of the folders in a folder; none if it is not there."""
        ...

    def files_in(self, path: str) -> list[str]:
        """Paths of the files right in a folder; none if it is not there."""
        ...

    def size(self, path: str) -> int:
        """Bytes of a file."""
        ...

    def make_folder(self, path: str) -> None: ...

    def rename(self, path: str, to: str) -> None:
        """Move a file or folder to where nothing is; the folder around `to` is made."""
        ...

    def delete(self, path: str) -> None:
        """Remove a file or a whole folder, if it is there."""
        ...

    def read_text(self, path: str) -> str: ...

    def write_text(self, path: str, text: str) -> None:
        """Written whole or not at all, and on the disk when this returns."""
        ...


class LocalFiles:
    """The disks of this machine."""

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def folders_in(self, path: str) -> list[str]:
        return sorted(each.path for each in _entries(path) if each.is_dir())

    def files_in(self, path: str) -> list[str]:
        return sorted(each.path for each in _entries(path) if each.is_file())

    def size(self, path: str) -> int:
        return Path(path).stat().st_size

    def make_folder(self, path: str) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)

    def rename(self, path: str, to: str) -> None:
        target = Path(to)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            raise FileExistsError(to)
        Path(path).rename(target)
        sync_folder(target.parent)
        sync_folder(Path(path).parent)

    def delete(self, path: str) -> None:
        if Path(path).is_dir() and not Path(path).is_symlink():
            shutil.rmtree(path)
        else:
            Path(path).unlink(missing_ok=True)

    def read_text(self, path: str) -> str:
        return Path(path).read_text(encoding="utf-8")

    def write_text(self, path: str, text: str) -> None:
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
        sync_folder(target.parent)


def copies(path: str) -> bool:
    """Whether a rename there is a copy and then a deletion, file by file: so it is where there are no folders."""
    scheme, separator, _ = path.partition(":/")
    return bool(separator) and scheme.lower() not in _RENAMING


def volume(path: str) -> str:
    """What a rename cannot leave: the file system of a URL, the disk of a local path."""
    scheme, separator, rest = path.partition("://")
    if separator:
        return f"{scheme.lower()}://{rest.partition('/')[0]}"
    here = Path(path)
    while not here.exists() and here != here.parent:
        here = here.parent
    return f"disk:{here.stat().st_dev}"


def _entries(path: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(path) as found:
            yield from list(found)
    except FileNotFoundError:
        return
