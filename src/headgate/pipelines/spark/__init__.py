"""The engine of pipelines: the only part of them that imports pyspark."""
