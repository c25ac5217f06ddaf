package headgate.spark.listener

import java.util.concurrent.atomic.AtomicBoolean

import scala.util.control.NonFatal

import org.slf4j.LoggerFactory

/** The boundary: whatever goes wrong in the agent stays in the agent, and is told once. */
object Guard {
  private val log = LoggerFactory.getLogger("headgate")
  private val told = new AtomicBoolean(false)

  def run(body: => Unit): Unit = orElse(())(body)

  def orElse[A](otherwise: => A)(body: => A): A =
    try body
    catch {
      case error: LinkageError => give(error, otherwise)
      // A plan too deep or too large for its thread: the thread itself is whole again.
      case error: VirtualMachineError => give(error, otherwise)
      case NonFatal(error) => give(error, otherwise)
    }

  def warn(message: String): Unit = log.warn(message)

  def info(message: String): Unit = log.info(message)

  private def give[A](error: Throwable, otherwise: => A): A = {
    if (told.compareAndSet(false, true)) {
      log.warn(s"the Headgate agent could not watch part of this job, which goes on unharmed: $error")
      log.debug("where it happened", error)
    }
    otherwise
  }
}
