package headgate.spark.transport

/** When the server may be asked again: soon after a failure or two, and seldom once it is known to be gone. */
private[transport] final class Circuit(random: () => Double) {
  import Circuit._

  private var failures = 0
  private var open = false
  private var notBefore = 0L

  /** Whether the server is taken for gone; an attempt is then only a probe. */
  def isOpen: Boolean = open

  def waitMs(now: Long): Long = math.max(0L, notBefore - now)

  def succeeded(): Unit = {
    failures = 0
    open = false
    notBefore = 0L
  }

  /** The server did not take the events; `isLast` opens the circuit whatever came before. */
  def failed(now: Long, retryAfterMs: Long, isLast: Boolean): Unit = {
    failures += 1
    open = open || isLast || failures >= Failures
    notBefore = now + (if (open) math.max(ProbeMs, retryAfterMs) else pauseMs(retryAfterMs))
  }

  /** The server lives and wants to be left alone for a while. */
  def held(now: Long, retryAfterMs: Long): Unit = {
    failures += 1
    notBefore = now + pauseMs(retryAfterMs)
  }

  private def pauseMs(retryAfterMs: Long): Long = {
    val longest = math.min(LongestPauseMs, FirstPauseMs << math.min(failures - 1, 10))
    math.max(retryAfterMs, (longest * (0.5 + random() / 2)).toLong)
  }
}

private[transport] object Circuit {
  val Failures = 3
  val ProbeMs = 30000L
  val LongestPauseMs = 30000L
  val FirstPauseMs = 500L
}
