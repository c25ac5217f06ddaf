"""Medallion pipelines declared in YAML: tests, quarantine, gates and stories. Only `spark/` imports pyspark."""
