package headgate.spark.transport

import java.util.concurrent.ConcurrentHashMap

import org.slf4j.LoggerFactory

/** One line in the job's log for each kind of problem, however often it happens. */
private[spark] final class Warnings {
  private val told = ConcurrentHashMap.newKeySet[String]()

  def once(kind: String, sentence: => String): Unit =
    if (told.add(kind)) Warnings.log.warn(sentence)
}

private[spark] object Warnings {
  private val log = LoggerFactory.getLogger("headgate")
}
