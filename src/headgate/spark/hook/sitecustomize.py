"""Adds the agent to the SparkContext that a job makes, inside the job's own interpreter.

Python imports a module of this name when it starts. What the job sets in its builder, in spark-defaults.conf or in
PYSPARK_SUBMIT_ARGS is all known once its JVM is up: there the listener joins the others and the jar joins the class
loader, and nothing of the user's is replaced. If anything here fails, the job goes on without the agent. The
interpreter may be any that Spark supports, without headgate: standard library only, and Python 3.8.
"""

import importlib
import importlib.abc
import importlib.util
import os
import sys
from typing import Any, Optional, Sequence

LISTENER = "headgate.spark.HeadgateListener"
LISTENERS_KEY = "spark.extraListeners"
HERE = os.path.dirname(os.path.abspath(__file__))
# Where SparkContext is defined: Spark 4, then Spark 3.5.
MODULES = ("pyspark.core.context", "pyspark.context")


class Finder(importlib.abc.MetaPathFinder):
    """Waits for pyspark, and steps aside once it is there."""

    def find_spec(self, fullname: str, path: Optional[Sequence[str]], target: Any = None) -> Any:
        if fullname not in MODULES:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        loader: Any = spec.loader if spec else None
        if loader is not None and hasattr(loader, "exec_module"):
            after(loader, watch)
        return spec


def after(loader: Any, action: Any) -> None:
    """Have `action` called with the next module that `loader` executes."""
    original = loader.exec_module

    def exec_module(module: Any) -> None:
        loader.exec_module = original
        original(module)
        action(module)

    loader.exec_module = exec_module


def watch(module: Any) -> None:
    """Every SparkContext gets the agent between the start of its JVM and its own."""
    context: Any = getattr(module, "SparkContext", None)
    ensure = getattr(context, "_ensure_initialized", None)
    if ensure is None:
        give_up("this pyspark starts in a way that is not known")
        return
    original = ensure.__func__

    def ensure_initialized(cls: Any, instance: Any = None, gateway: Any = None, conf: Any = None) -> None:
        original(cls, instance, gateway, conf)
        if instance is not None:
            add_agent(cls._jvm, conf)

    context._ensure_initialized = classmethod(ensure_initialized)


def add_agent(jvm: Any, conf: Any) -> None:
    """Add the listener, if its class can be loaded: a listener that cannot would end the job."""
    try:
        load(jvm)
        known = conf.get(LISTENERS_KEY) if conf is not None else None
        listeners = joined(known or jvm.org.apache.spark.SparkConf().get(LISTENERS_KEY, ""))
        if conf is not None:
            conf.set(LISTENERS_KEY, listeners)
        else:
            jvm.java.lang.System.setProperty(LISTENERS_KEY, listeners)
    except Exception as error:
        give_up(str(error).splitlines()[0] if str(error) else type(error).__name__)


def load(jvm: Any) -> None:
    """Put the agent's jar on the class path of the running JVM, unless the user has done so."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if loader.getResource(LISTENER.replace(".", "/") + ".class") is None:
        scala = ".".join(jvm.scala.util.Properties.versionNumberString().split(".")[:2])
        jar = os.path.join(os.environ["HEADGATE_SPARK_JARS"], "headgate-spark_" + scala + ".jar")
        loader.addURL(jvm.java.io.File(jar).toURI().toURL())
    loader.loadClass(LISTENER)


def joined(listeners: str) -> str:
    known = [name.strip() for name in listeners.split(",") if name.strip()]
    return ",".join(known if LISTENER in known else [*known, LISTENER])


def give_up(why: str) -> None:
    sys.stderr.write("headgate: the job runs without the agent: " + why + "\n")


def make_way() -> None:
    """Leave the path, so that Spark's Python workers start as usual, and run the sitecustomize that was hidden."""
    kept = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part and part != HERE]
    if kept:
        os.environ["PYTHONPATH"] = os.pathsep.join(kept)
    else:
        os.environ.pop("PYTHONPATH", None)
    sys.path[:] = [part for part in sys.path if part != HERE]
    sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise


def is_driver() -> bool:
    """Spark's own Python workers make no context."""
    started = getattr(sys, "orig_argv", [])
    return "pyspark.daemon" not in started and "pyspark.worker" not in started


if __name__ == "sitecustomize":
    this = sys.modules[__name__]
    if is_driver():
        sys.meta_path.insert(0, Finder())
    make_way()
    sys.modules.setdefault("sitecustomize", this)
