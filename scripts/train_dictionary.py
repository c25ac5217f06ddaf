"""Trains the dictionary that events are packed with, from folders of sample events.

    python scripts/train_dictionary.py OUTPUT FOLDER…

Run by hand when a better one is worth a new number; dictionaries in use never change.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import zstandard

SIZE = 32 * 1024


def samples(folder: Path) -> list[bytes]:
    """Events as producers send them: compact, one by one, in both common key orders."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".json":
            texts = [path.read_text(encoding="utf-8")]
        elif path.suffix == ".ndjson":
            texts = path.read_text(encoding="utf-8").splitlines()
        else:
            continue
        for text in texts:
            event = json.loads(text)
            for sort_keys in (False, True):
                for separators in ((",", ":"), (", ", ": ")):
                    found.append(json.dumps(event, sort_keys=sort_keys, separators=separators).encode())
    return found


def main() -> None:
    output, *folders = map(Path, sys.argv[1:])
    events = [event for folder in folders for event in samples(folder)]
    dictionary = zstandard.train_dictionary(SIZE, events, dict_id=0x4847_0001, level=3)
    output.write_bytes(dictionary.as_bytes())
    sys.stdout.write(f"{output}: {len(dictionary.as_bytes())} bytes from {len(events)} samples\n")


if __name__ == "__main__":
    main()
