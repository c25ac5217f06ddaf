"""Graphs around a job, with what a job consists of rolled up into it."""

from headgate.server.lineage.hierarchy.graph import job_graph
from headgate.server.lineage.hierarchy.schemas import JobGraphOut

__all__ = ["JobGraphOut", "job_graph"]
