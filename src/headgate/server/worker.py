"""The worker: claims batches of tasks, one organisation after the other, and has them done.

It is told of new work by a bell, and looks by itself now and then for what a bell did not tell: tasks that are due
again, and those of workers that died.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from uuid import UUID, uuid4

import msgspec

from headgate.server.db.pool import Database, Record
from headgate.server.execution import OUTAGE, Claim, Execution, Hold
from headgate.server.kinds import KINDS
from headgate.server.queue import PRESSED, Batch, Bell, Kind, Task, noting_made
from headgate.server.rotation import Pace, Pressure, Rotation
from headgate.server.tasks.counters import TaskCounters
from headgate.server.tasks.store import Q
from headgate.settings import Rate

log = logging.getLogger("headgate.worker")

# How often it looks for what no bell told, and gives new organisations their recurring work.
LOOK_S = 1.0
SCHEDULE_S = 30.0
PARTITIONS_S = 3600.0
MAX_ORGANIZATIONS = 10_000
# The more organisations there are the longer a look takes; it never takes more than this share of the time.
LOOK_SHARE = 0.05
# However long one took: what is due again is not left lying because the database was slow once.
MAX_LOOK_PAUSE_S = 30.0
# Whoever sends events comes first; but work that is put off for longer than this is done all the same.
YIELD_S = 0.02
MAX_YIELD_S = 1.0
# Whoever stops us does not wait for much longer.
GIVE_BACK_S = 1.5


class Worker:
    """Runs until told to stop. Any number of them may run, in any number of processes."""

    def __init__(
        self,
        database: Database,
        kinds: Iterable[Kind] = KINDS,
        *,
        bell: Bell | None = None,
        counters: TaskCounters | None = None,
        lanes: int = 2,
        look_s: float = LOOK_S,
        rate: Rate | None = None,
    ) -> None:
        self.id = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        self._database = database
        self._kinds = {kind.task_type: kind for kind in kinds}
        self._bell = bell or Bell(database)
        self._counters = counters or TaskCounters()
        self._lanes = lanes
        self._look_s = look_s
        self._rotation = Rotation()
        self._pace = Pace(rate)
        self._pressure = Pressure(lambda: self._bell.is_pressed())
        self._held: set[UUID] = set()
        self._turns: Counter[UUID] = Counter()
        self._codes: dict[UUID, str] = {}
        # Lanes that do recurring work, or may be about to.
        self._tending = 0
        # Claims of the time when the database was gone: to be given back when it is there again.
        self._owed: list[Hold] = []
        self._look_at = self._scheduled_at = self._partitions_at = float("-inf")
        self._bell.listen(self._rotation.add)

    def hear(self, payload: str | None) -> None:
        """A bell of another process; without a word, one may have been missed."""
        if payload and payload.startswith(PRESSED):
            # Of this process it is known exactly.
            if payload != PRESSED + self._bell.id:
                self._pressure.hear()
        elif payload:
            with suppress(ValueError):  # anybody who reaches the database can ring
                self._rotation.add(UUID(payload))
        else:
            self._look_at = float("-inf")

    async def run(self, stop: asyncio.Event) -> None:
        """Work until told to stop; then what has begun is finished, or given back if that takes too long."""
        async with asyncio.TaskGroup() as lanes:
            for _ in range(self._lanes):
                lanes.create_task(self._run_lane(stop))

    async def step(self) -> int:
        """Do one batch of the organisation whose turn it is; how many tasks it had."""
        await self._pay()
        await self._look()
        while (organization_id := self._rotation.next()) is not None:
            if self._holds_back(organization_id):
                continue
            if number := await self._serve(organization_id):
                return number
        return 0

    async def drain(self) -> int:
        """Do all that is due; how many tasks that was. What is done may make more to do."""
        done = 0
        self._look_at = float("-inf")
        while number := await self.step():
            done += number
            if self._rotation.is_empty:
                self._look_at = float("-inf")
        return done

    async def schedule(self) -> None:
        """Give every organisation its recurring tasks."""
        recurring = [(kind.task_type, kind.every_s) for kind in self._kinds.values() if kind.every_s is not None]
        if recurring:
            async with self._database.transaction() as conn:
                await conn.execute(Q.schedule_recurring, *map(list, zip(*recurring, strict=True)))

    async def _run_lane(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            done = 0
            try:
                await self._keep_up()
                await self._give_way(stop)
                done = await self.step()
            except OUTAGE as error:
                log.info("the worker waits for the database", extra={"error": str(error)})
                await _pause(stop, self._look_s)
            except Exception:
                # The boundary of a worker's round: logged, and tried again after a pause.
                log.exception("a round of the worker failed")
                await _pause(stop, self._look_s)
            if not done:
                await self._rotation.wait(stop, self._look_s)

    async def _give_way(self, stop: asyncio.Event) -> None:
        if not self._pressure.is_on():
            return
        began = time.monotonic()
        while self._pressure.is_on() and not stop.is_set() and time.monotonic() - began < MAX_YIELD_S:
            await _pause(stop, YIELD_S)
        self._counters.yielded(time.monotonic() - began)

    async def _keep_up(self) -> None:
        """What has to be there before it is needed: recurring tasks, and the partitions of the months to come."""
        now = time.monotonic()
        if now - self._scheduled_at >= SCHEDULE_S:
            self._scheduled_at = now
            await self.schedule()
        if now - self._partitions_at >= PARTITIONS_S:
            self._partitions_at = now
            async with self._database.transaction() as conn:
                await conn.execute(Q.ensure_partitions)

    async def _pay(self) -> None:
        while self._owed:
            hold = self._owed.pop()
            try:
                await hold.give_back(self._database, "the database was gone")
            except BaseException:
                self._owed.append(hold)
                raise

    async def _look(self) -> None:
        """Find organisations with work that is due, at most so often; they wait for their turn behind the others."""
        began = time.monotonic()
        if began < self._look_at:
            return
        # Before the question: another lane must not ask it, too.
        self._look_at = began + self._look_s
        async with self._database.transaction() as conn:
            # Waiting for a connection is no part of what a look costs.
            began = time.monotonic()
            rows = await conn.fetch(Q.find_due_organizations, list(self._kinds), MAX_ORGANIZATIONS)
        now = time.monotonic()
        self._look_at = max(self._look_at, now + min((now - began) / LOOK_SHARE, MAX_LOOK_PAUSE_S))
        for row in rows:
            if row["number"]:
                self._note_taken_back(row)
            else:
                self._rotation.add(row["organization_id"])

    def _note_taken_back(self, row: Record) -> None:
        dead = row["number"] if row["status"] == "DEAD" else 0
        self._counters.failed(row["task_type"], row["tenant_code"], row["number"] - dead, dead)
        log.warning(
            "claims ran out: the worker is gone, or hangs",
            extra={
                "tenant": row["tenant_code"],
                "type": row["task_type"],
                "tasks": row["number"],
                "now": row["status"],
            },
        )

    def _holds_back(self, organization_id: UUID) -> bool:
        """Whether an organisation has had its share; it comes back when it may go on."""
        wait_s = self._pace.wait_s(organization_id)
        if wait_s and organization_id not in self._held:
            self._held.add(organization_id)
            self._counters.held_back(self._codes.get(organization_id, ""))
            asyncio.get_running_loop().call_later(wait_s, self._let_go, organization_id)
        return wait_s > 0

    def _let_go(self, organization_id: UUID) -> None:
        self._held.discard(organization_id)
        self._rotation.add(organization_id)

    async def _serve(self, organization_id: UUID) -> int:
        """Do one batch of an organisation, if it has one. Recurring work can take its time, so it leaves one lane to
        what somebody waits for, and is put off first."""
        may_tend = (self._lanes == 1 or self._tending < self._lanes - 1) and not self._pressure.puts_off()
        self._tending += may_tend
        try:
            claim = await self._claim(organization_id, may_tend=may_tend)
            if claim is None:
                return 0
            if may_tend and claim.kind.every_s is None:
                may_tend = False
                self._tending -= 1
            if may_tend or len(claim.batch.tasks) == claim.kind.batch_size:
                # Behind the others, before the work begins: there is more, and another lane may go on with it.
                self._rotation.add(organization_id)
            await self._do(claim)
        finally:
            self._tending -= may_tend
        return len(claim.batch.tasks)

    async def _claim(self, organization_id: UUID, *, may_tend: bool = True) -> Claim | None:
        kinds = [kind for kind in self._kinds.values() if may_tend or kind.every_s is None]
        token = uuid4()
        async with self._holding(Hold(organization_id, token)), self._database.tenant(organization_id) as conn:
            rows = await conn.fetch(
                Q.claim_tasks,
                organization_id,
                [kind.task_type for kind in kinds],
                [kind.batch_size for kind in kinds],
                [kind.claim_s for kind in kinds],
                self.id,
                self._turns[organization_id],
                token,
            )
        if not rows:
            self._turns.pop(organization_id, None)
            return None
        return self._claimed(organization_id, rows)

    def _claimed(self, organization_id: UUID, rows: list[Record]) -> Claim:
        first = rows[0]
        kind, code = self._kinds[first["task_type"]], first["tenant_code"]
        tasks = tuple(_task(row) for row in sorted(rows, key=lambda row: int(row["id"])))
        self._turns[organization_id] += 1
        self._codes[organization_id] = code
        self._pace.spend(organization_id, len(tasks))
        self._counters.claimed(kind.task_type, code, len(tasks))
        batch = Batch(organization_id, kind.task_type, first["model_fingerprint"], tasks)
        return Claim(kind, batch, first["claim_token"], code)

    async def _do(self, claim: Claim) -> None:
        with noting_made() as made:
            await self._execute(claim)
        # What was made is there from now on; before, this lane or another may have looked in vain.
        self._rotation.add(claim.batch.organization_id)
        for organization_id in made:
            self._bell.ring(organization_id)

    async def _execute(self, claim: Claim) -> None:
        began = time.perf_counter()
        async with self._holding(claim.hold):
            outcome = await Execution(self._database, claim).run()
        took_s = time.perf_counter() - began
        self._counters.done(claim.kind.task_type, claim.tenant_code, *outcome, took_s)

    @asynccontextmanager
    async def _holding(self, hold: Hold) -> AsyncIterator[None]:
        """What is held is given back if we are stopped, and as soon as it can be if the database is gone."""
        try:
            yield
        except asyncio.CancelledError:
            await self._give_back(hold)
            raise
        except OUTAGE:
            self._owed.append(hold)
            raise

    async def _give_back(self, hold: Hold) -> None:
        try:
            async with asyncio.timeout(GIVE_BACK_S):
                await hold.give_back(self._database, "the worker was told to stop")
        except Exception as error:
            log.warning("a batch could not be given back; its claim runs out", extra={"error": str(error)})


def _task(row: Record) -> Task:
    return Task(
        row["id"],
        row["organization_id"],
        row["task_type"],
        row["resource_type"],
        row["resource_id"],
        msgspec.json.decode(row["payload"]),
        row["attempts"],
        row["created_at"],
        row["retry_count"] >= row["max_retry"],
    )


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), timeout=seconds)
