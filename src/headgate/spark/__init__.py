"""The Python side of the Spark agent: finds its jar, composes its configuration, and launches jobs with it.

Only this package imports pyspark, and only when it is handed a session.
"""

from __future__ import annotations

from headgate.spark.attach import Attached, attach
from headgate.spark.compose import conf
from headgate.spark.jar import jar_path

__all__ = ["Attached", "attach", "conf", "jar_path"]
