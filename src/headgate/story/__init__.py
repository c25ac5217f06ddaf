"""The story of a run: one HTML file that needs nothing but itself. Imports no Spark and no server."""

from headgate.story.facts import Kind, Lineage, LineageEdge, LineageNode, Story
from headgate.story.render import render

__all__ = ["Kind", "Lineage", "LineageEdge", "LineageNode", "Story", "render"]
