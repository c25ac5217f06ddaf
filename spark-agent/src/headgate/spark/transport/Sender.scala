package headgate.spark.transport

import java.util.concurrent.atomic.AtomicReference

import Outbox.{now, Events}

/** Carries events from the outbox to the server or the spool, on a thread of its own. */
private[transport] final class Sender(
    server: Option[Http],
    spool: Option[Spool],
    backlog: Backlog,
    warnings: Warnings)
    extends Transport {
  import Sender._

  private val outbox = new Outbox(backlog, server.isDefined, spool.isDefined)
  private val thread = new AtomicReference[Thread]
  @volatile private var problem = "did not answer yet"
  @volatile private var hasTold = false

  def send(event: Array[Byte]): Unit = {
    val gone = outbox.add(event)
    if (thread.get == null) start()
    if (gone.nonEmpty) overflow(gone)
  }

  def flush(timeoutMs: Long): Boolean =
    try outbox.awaitSettled(timeoutMs)
    catch {
      case _: InterruptedException =>
        Thread.currentThread.interrupt()
        false
    }

  def close(timeoutMs: Long): Counts = {
    val until = now + timeoutMs
    val reserveMs = math.min(StoreMs, timeoutMs / 10)
    outbox.closeBy(until - reserveMs)
    Option(thread.get).foreach(join(_, until - reserveMs))
    // A folder of a machine that is gone can hang as well as a server: this, too, is not waited for without end.
    val ending = daemon("headgate-close", end())
    ending.start()
    join(ending, math.max(until, now + (if (spool.isDefined) LeastStoreMs else 0L)))
    outbox.counts
  }

  private def start(): Unit = {
    val sender = daemon("headgate-sender", run())
    if (thread.compareAndSet(null, sender)) sender.start()
  }

  private def end(): Unit = {
    val left = outbox.seize()
    if (left.nonEmpty) {
      if (!hasTold) server.foreach(tell(_, "server"))
      store(left)
    }
    spool.foreach(_.close())
    if (Option(thread.get).exists(_.isAlive)) server.foreach(_.abort())
  }

  private def run(): Unit = {
    var work: Outbox.Work = outbox.await()
    while (work != Outbox.End) {
      work match {
        case Outbox.Post(batch) => guarded(batch)(server.foreach(post(_, batch)))
        case Outbox.Store(batch) => guarded(batch)(store(batch))
        case Outbox.End =>
      }
      work = outbox.await()
    }
  }

  /** Whatever goes wrong in here costs this batch at most. */
  private def guarded(batch: Events)(work: => Unit): Unit =
    try work
    catch { case e: Throwable => warnings.once("internal", s"events could not be sent ($e)") }
    finally outbox.done(batch)

  private def post(server: Http, batch: Events): Unit = {
    val answer = server.post(batch.map(_.bytes))
    val gone = outbox.answered(batch, answer)
    answer match {
      case Answer.Dealt(refused) => refused.find(!_.isRetriable).foreach(event => tellRefused(event.reason))
      case Answer.Unfit(reason, isTooLarge) if batch.size == 1 => tellUnfit(batch.head, reason, isTooLarge)
      case Answer.Failed(reason, _, _) =>
        problem = reason
        if (outbox.isOpen) tell(server, "server")
      case Answer.Held(_) => problem = "asks for fewer events (429)"
      case Answer.Turned(kind, wayOut) =>
        problem = wayOut
        tell(server, kind)
      case _ =>
    }
    if (gone.nonEmpty) overflow(gone)
  }

  private def store(events: Events): Unit = spool.foreach(spool => outbox.stored(spool.append(events.map(_.bytes))))

  private def overflow(gone: Events): Unit = {
    val fate = if (spool.isDefined) "go to the spool" else "are dropped"
    warnings.once("full", s"more events wait than spark.headgate.queueSize or 64 MiB allow; the oldest $fate")
    store(gone)
  }

  private def tell(server: Http, kind: String): Unit = {
    hasTold = true
    val fate = if (spool.isDefined) "go to the spool" else "are dropped in the end (spark.headgate.spoolDir keeps them)"
    warnings.once(kind, s"the server ${server.base} $problem; the job goes on, and events that it does not take $fate")
  }

  private def tellRefused(reason: String): Unit =
    warnings.once("refused", s"the server refused an event, which is dropped: ${reason.take(LongestReason)}")

  private def tellUnfit(event: Numbered, reason: String, isTooLarge: Boolean): Unit =
    if (!isTooLarge) tellRefused(reason)
    else {
      def size = s"${event.bytes.length} bytes (${Http.packed(Seq(event.bytes)).length} packed)"
      warnings.once("large", s"the server refused an event of $size, which is dropped: ${reason.take(LongestReason)}")
    }
}

private[transport] object Sender {
  private val StoreMs = 1000L
  private val LeastStoreMs = 200L
  private val LongestReason = 500

  private def daemon(name: String, work: => Unit): Thread = {
    val thread = new Thread(new Runnable { def run(): Unit = work }, name)
    thread.setDaemon(true)
    thread
  }

  private def join(thread: Thread, until: Long): Unit =
    try thread.join(math.max(1L, until - now))
    catch { case _: InterruptedException => Thread.currentThread.interrupt() }
}
