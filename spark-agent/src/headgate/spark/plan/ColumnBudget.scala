package headgate.spark.plan

import java.lang.management.{ManagementFactory, ThreadMXBean}

import scala.util.control.ControlThrowable

/** How much work one target may cost before its columns are given up. */
private[plan] final class ColumnBudget {
  private val until = ColumnBudget.now + ColumnBudget.Nanos
  private var work = 0L
  private var checkAt = ColumnBudget.Stride
  private var edges = 0L

  def spend(units: Int): Unit = {
    work += units
    if (work >= checkAt) {
      checkAt = work + ColumnBudget.Stride
      if (work > ColumnBudget.Work || ColumnBudget.now > until) throw new ColumnBudget.Spent
    }
  }

  def keep(origins: ColumnOrigins.Origins): ColumnOrigins.Origins = {
    edges += origins.size
    if (edges > ColumnBudget.Edges) throw new ColumnBudget.Spent
    origins
  }
}

private[plan] object ColumnBudget {
  val Edges = 100000L
  val Nanos = 2000000000L
  // For a JVM that cannot tell the time of a thread.
  val Work = 50000000L
  private val Stride = 1000L

  private val clock: Option[ThreadMXBean] =
    Reflect.guarded(ManagementFactory.getThreadMXBean).filter(_.isCurrentThreadCpuTimeSupported)

  /** Time that this thread worked: a machine that is busy with the job itself is no reason to know less. */
  private def now: Long = clock.map(_.getCurrentThreadCpuTime).getOrElse(0L)

  final class Spent extends ControlThrowable
}
