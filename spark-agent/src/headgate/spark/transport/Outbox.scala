package headgate.spark.transport

import scala.util.Random

/** What waits, what is under way and what became of the rest; decides what its one sender does next, and does none of
  * it: no call here touches disk or network, so none holds up the agent.
  */
private[transport] final class Outbox(backlog: Backlog, hasServer: Boolean, hasSpool: Boolean) {
  import Outbox._

  private val circuit = new Circuit(() => Random.nextDouble())
  private var inFlight: Events = Nil
  private var accepted, sent, retried, spooled = 0L
  private var waitingSince = 0L
  private var batchLimit = MaxEvents
  private var isRepeat, isHurried, mayProbe, isClosed = false
  private var deadline = Long.MaxValue

  def isOpen: Boolean = synchronized(circuit.isOpen)

  /** Take an event; those that had to go for it come back. */
  def add(event: Array[Byte]): Events = synchronized {
    accepted += 1
    if (isClosed) Nil
    else {
      if (backlog.isEmpty) waitingSince = now
      val gone = backlog.add(new Numbered(accepted, event))
      if (backlog.size == 1 || backlog.size == MaxEvents) notifyAll()
      gone
    }
  }

  /** What to do next, once there is something. */
  def await(): Work = synchronized {
    var pauseMs = untilWork
    while (pauseMs > 0) {
      wait(math.min(pauseMs, LongestWaitMs))
      pauseMs = untilWork
    }
    if (isClosed || backlog.isEmpty || isHopeless) End
    else if (mustStore) Store(taken(MaxEvents))
    else {
      if (isRepeat) retried += 1
      isRepeat = false
      Post(taken(batchLimit))
    }
  }

  /** Note the answer to a batch; events that found no place in the backlog come back. */
  def answered(batch: Events, answer: Answer): Events = settling(batch) {
    answer match {
      case Answer.Dealt(refused) => dealt(batch, refused)
      case _: Answer.Unfit => unfit(batch)
      case Answer.Failed(_, retryAfterMs, isTimeout) =>
        failed(batch)(circuit.failed(now, retryAfterMs, isLast = isTimeout && isClosing))
      case Answer.Held(retryAfterMs) => failed(batch)(circuit.held(now, retryAfterMs))
      case _: Answer.Turned => failed(batch)(circuit.failed(now, 0L, isLast = true))
    }
  }

  /** Note that a batch is dealt with, in files or nowhere. */
  def done(batch: Events): Unit = settling(batch)(Nil)

  def stored(count: Int): Unit = synchronized(spooled += count)

  /** Whether everything that was taken before this call is dealt with, after waiting for it. */
  def awaitSettled(timeoutMs: Long): Boolean = synchronized {
    val last = accepted
    val until = now + timeoutMs
    hurry()
    while (!isSettled(last) && !isStalled && now < until) wait(math.max(1L, until - now))
    isSettled(last)
  }

  /** Finish what can be finished by then. */
  def closeBy(time: Long): Unit = synchronized {
    deadline = math.min(deadline, time)
    hurry()
  }

  /** Take nothing more; whatever was not dealt with is the caller's. */
  def seize(): Events = synchronized {
    isClosed = true
    val left = inFlight ++ backlog.takeAll()
    inFlight = Nil
    notifyAll()
    left
  }

  def counts: Counts = synchronized(Counts(sent, retried, spooled, accepted - sent - spooled))

  private def isClosing: Boolean = deadline != Long.MaxValue

  private def mustStore: Boolean = !hasServer || (hasSpool && circuit.isOpen && circuit.waitMs(now) > 0)

  private def untilWork: Long =
    if (isClosed) 0L
    else if (backlog.isEmpty) {
      isHurried = false
      if (isClosing) 0L else LongestWaitMs
    } else if (mustStore || isHopeless) 0L
    else pauseMs

  private def pauseMs: Long = {
    val lingerMs = if (isHurried || backlog.size >= MaxEvents) 0L else waitingSince + LingerMs - now
    math.max(lingerMs, if (circuit.isOpen && mayProbe) 0L else circuit.waitMs(now))
  }

  /** Whether no attempt will come before the end. */
  private def isHopeless: Boolean = isClosing && pauseMs > 0 && (circuit.isOpen || now + pauseMs >= deadline)

  private def taken(limit: Int): Events = {
    inFlight = backlog.take(limit, MaxBatchBytes)
    inFlight
  }

  // After `seize` a batch belongs to somebody else, whatever the server answers in the end.
  private def settling(batch: Events)(settle: => Events): Events = synchronized {
    if (inFlight ne batch) Nil
    else {
      inFlight = Nil
      val gone = settle
      notifyAll()
      gone
    }
  }

  private def dealt(batch: Events, refused: Seq[Answer.Refused]): Events = {
    val again = refused.filter(_.isRetriable).map(_.index).filter(batch.indices.contains).distinct.sorted
    sent += batch.size - math.min(refused.size, batch.size)
    if (again.nonEmpty) failed(again.map(batch))(circuit.failed(now, 0L, isLast = false))
    else {
      circuit.succeeded()
      batchLimit = math.min(MaxEvents, batchLimit * 2)
      Nil
    }
  }

  /** Halve it until the event that is the cause is alone, and goes. */
  private def unfit(batch: Events): Events = {
    circuit.succeeded()
    batchLimit = math.max(1, batch.size / 2)
    if (batch.size > 1) repeat(batch) else Nil
  }

  private def failed(batch: Events)(note: => Unit): Events = {
    note
    mayProbe = false
    repeat(batch)
  }

  private def repeat(batch: Events): Events = {
    isRepeat = true
    backlog.putBack(batch)
  }

  private def hurry(): Unit = {
    isHurried = true
    mayProbe = true
    notifyAll()
  }

  private def isSettled(last: Long): Boolean = (inFlight.headOption ++ backlog.oldest).forall(_.number > last)

  private def isStalled: Boolean = circuit.isOpen && !mayProbe && inFlight.isEmpty && !hasSpool
}

private[transport] object Outbox {
  type Events = Seq[Numbered]

  val MaxEvents = 500
  val MaxBatchBytes: Long = 1024L * 1024
  private val LingerMs = 250L
  private val LongestWaitMs = 3600000L

  sealed trait Work
  final case class Post(batch: Events) extends Work
  final case class Store(batch: Events) extends Work
  case object End extends Work

  def now: Long = System.nanoTime / 1000000L
}
