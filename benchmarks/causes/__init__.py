"""Simulated pipelines with planted causes: how often is the planted one ranked first?"""

from benchmarks.causes.world import Planted, Symptom, World, simulate

__all__ = ["Planted", "Symptom", "World", "simulate"]
