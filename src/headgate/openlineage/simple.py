"""The simple JSON forms of ingest, translated into the OpenLineage events that every other producer sends."""

from headgate.openlineage.simple_events import Translated
from headgate.openlineage.simple_metadata import translate_metadata
from headgate.openlineage.simple_schema import translate_schema

__all__ = ["Translated", "translate_metadata", "translate_schema"]
