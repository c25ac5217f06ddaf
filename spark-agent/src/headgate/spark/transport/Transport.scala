package headgate.spark.transport

/** Takes events and gets them to the server if it can; never blocks and never throws. */
trait Transport {
  def send(event: Array[Byte]): Unit

  /** Wait until everything taken so far was sent, spooled or given up, but no longer than this. */
  def flush(timeoutMs: Long): Boolean

  /** Flush, stop, and tell what became of the events. */
  def close(timeoutMs: Long): Counts
}

final case class Counts(sent: Long, retried: Long, spooled: Long, dropped: Long)
