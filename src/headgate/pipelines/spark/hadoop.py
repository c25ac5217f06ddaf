"""Files of any file system that Hadoop can open, through the JVM of a classic session."""

from __future__ import annotations

import os
import posixpath
from contextlib import closing
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from headgate.errors import ConfigError
from headgate.pipelines.files import Files, LocalFiles, copies
from headgate.pipelines.places import has_scheme
from headgate.pipelines.spark.session import is_connect


def files_for(spark: SparkSession, location: str) -> Files:
    """The file system of a path, as Spark itself would find it."""
    if is_connect(spark):
        if has_scheme(location):
            raise ConfigError(
                f"{location} cannot be published to through Spark Connect, which gives no way to rename files",
                hint="run on a classic session (spark-submit, or --master), or write a table",
            )
        return LocalFiles()
    files = HadoopFiles(spark)
    # Without a scheme the cluster's own file system is meant, which need not be this machine's.
    return LocalFiles() if not has_scheme(location) and files.is_local(location) else files


class HadoopFiles:
    """A file system by Hadoop's own interface; which one, each path says."""

    def __init__(self, spark: SparkSession) -> None:
        session: Any = spark
        self._jvm = session._jvm
        self._conf = session._jsparkSession.sessionState().newHadoopConf()

    def is_local(self, path: str) -> bool:
        return str(self._system(path)[0].getScheme()) == "file"

    def exists(self, path: str) -> bool:
        system, found = self._system(path)
        return bool(system.exists(found))

    def folders_in(self, path: str) -> list[str]:
        return sorted(str(each.getPath().toString()) for each in self._entries(path) if each.isDirectory())

    def files_in(self, path: str) -> list[str]:
        return sorted(str(each.getPath().toString()) for each in self._entries(path) if each.isFile())

    def size(self, path: str) -> int:
        system, found = self._system(path)
        return int(system.getFileStatus(found).getLen())

    def make_folder(self, path: str) -> None:
        system, found = self._system(path)
        system.mkdirs(found)

    def rename(self, path: str, to: str) -> None:
        system, source = self._system(path)
        target = self._jvm.org.apache.hadoop.fs.Path(to)
        # Hadoop would move it into a folder that is there.
        if system.exists(target):
            raise FileExistsError(to)
        system.mkdirs(target.getParent())
        # Some say so by their answer, some by an exception.
        if not system.exists(source):
            raise FileNotFoundError(path)
        if not system.rename(source, target):
            raise OSError(f"{path} could not be renamed to {to}")

    def delete(self, path: str) -> None:
        system, found = self._system(path)
        if system.exists(found) and not system.delete(found, True) and system.exists(found):
            raise OSError(f"{path} could not be deleted")

    def read_text(self, path: str) -> str:
        system, found = self._system(path)
        with closing(system.open(found)) as stream:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream)).decode("utf-8")

    def write_text(self, path: str, text: str) -> None:
        folder, name = posixpath.split(path)
        # An object is there when it is whole; a file is there as soon as it is begun.
        draft = path if copies(path) else posixpath.join(folder, f".{name}.{os.getpid()}")
        system, found = self._system(draft)
        with closing(system.create(found, True)) as stream:
            stream.write(bytearray(text.encode("utf-8")))
            if draft != path:
                stream.hflush()
        if draft != path:
            self._rename_over(draft, path)

    def _rename_over(self, path: str, to: str) -> None:
        """In one step, which `FileSystem.rename` does not offer."""
        paths = self._jvm.org.apache.hadoop.fs
        source, target = paths.Path(path), paths.Path(to)
        kind = getattr(paths, "Options$Rename")
        options = self._jvm.java.lang.reflect.Array.newInstance(kind.OVERWRITE.getClass(), 1)
        self._jvm.java.lang.reflect.Array.set(options, 0, kind.OVERWRITE)
        system = source.getFileSystem(self._conf)
        paths.FileContext.getFileContext(system.getUri(), self._conf).rename(source, target, options)

    def _system(self, path: str) -> tuple[Any, Any]:
        found = self._jvm.org.apache.hadoop.fs.Path(path)
        return found.getFileSystem(self._conf), found

    def _entries(self, path: str) -> list[Any]:
        system, found = self._system(path)
        try:
            return list(system.listStatus(found))
        except Py4JJavaError as error:
            if "FileNotFoundException" in error.java_exception.getClass().getName():
                return []
            raise
