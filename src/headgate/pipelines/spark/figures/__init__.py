"""Tests of a batch as a whole: figures that are taken in the pass or by jobs of their own, and what they mean."""

from headgate.pipelines.spark.figures.measures import measures_of
from headgate.pipelines.spark.figures.outliers import outlier_figures
from headgate.pipelines.spark.figures.own import own_figures
from headgate.pipelines.spark.figures.profile import profile_measures, profile_of
from headgate.pipelines.spark.figures.verdicts import Batch, Judged, judge

__all__ = [
    "Batch",
    "Judged",
    "judge",
    "measures_of",
    "outlier_figures",
    "own_figures",
    "profile_measures",
    "profile_of",
]
