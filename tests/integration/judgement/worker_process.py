"""A worker in a process of its own, for tests that kill it: claims are short, and effects are counted."""

from __future__ import annotations

import asyncio
import sys

from headgate.server.db.pool import Connection, Database
from headgate.server.notices import Notices
from headgate.server.queue import CHANNEL, Batch, Kind
from headgate.server.worker import Worker
from tests.support.tasks import note_effects


async def slowly(conn: Connection, batch: Batch) -> None:
    await note_effects(conn, batch)
    await asyncio.sleep(0.005 * len(batch.tasks))


async def main(dsn: str) -> None:
    database = Database(dsn, max_size=6)
    worker = Worker(database, [Kind("WORK", handle=slowly, batch_size=20, claim_s=1)], look_s=0.2)
    notices = Notices(database)
    notices.subscribe(CHANNEL, worker.hear)
    await notices.start()
    sys.stdout.write("working\n")
    sys.stdout.flush()
    await worker.run(asyncio.Event())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
