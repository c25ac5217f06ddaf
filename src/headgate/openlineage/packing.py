"""Packs events for the log: zstd with a shared dictionary, byte-exact when unpacked.

Events are small and repeat the specification's words; a dictionary of those words about halves both their size
and the time to pack them. A frame names the dictionary it needs, and dictionaries are never
removed: a new one gets a new number.
"""

from __future__ import annotations

from importlib import resources

import zstandard

_LATEST = "events-1.zdict"
_LEVEL = 1


def _load(name: str) -> zstandard.ZstdCompressionDict:
    data = resources.files("headgate.openlineage.dictionaries").joinpath(name).read_bytes()
    return zstandard.ZstdCompressionDict(data)


_dictionary = _load(_LATEST)
_dictionary.precompute_compress(level=_LEVEL)
_compressor = zstandard.ZstdCompressor(level=_LEVEL, dict_data=_dictionary)
_decompressor = zstandard.ZstdDecompressor(dict_data=_dictionary)


def pack(raw: bytes) -> bytes:
    return _compressor.compress(raw)


def unpack(packed: bytes) -> bytes:
    return _decompressor.decompress(packed)
