package headgate.spark

import org.apache.spark.SparkConf
import org.apache.spark.scheduler._
import org.apache.spark.sql.execution.ui.{SparkListenerSQLExecutionEnd, SparkListenerSQLExecutionStart}
import org.apache.spark.sql.headgate.Access

import headgate.spark.listener._

/** What Spark calls. Each call hands over and returns: the work is done on the agent's own thread. */
final class HeadgateListener(conf: SparkConf) extends SparkListener {
  private val worker: Option[Worker] = Guard.orElse(None: Option[Worker])(Worker.start(conf))
  // Touched by the listener bus's thread alone.
  private val tasks = new TaskTallies
  if (worker.isDefined) Agent.register(this)

  override def onApplicationStart(event: SparkListenerApplicationStart): Unit = hand(
    _.applicationStarted(event.appName, event.appId.getOrElse("unknown"), event.sparkUser, event.time))

  override def onApplicationEnd(event: SparkListenerApplicationEnd): Unit = end(event.time, ExitCode.of(event))

  override def onJobStart(event: SparkListenerJobStart): Unit = hand(_.jobStarted(JobStart.of(event)))

  override def onJobEnd(event: SparkListenerJobEnd): Unit =
    hand(_.jobEnded(event.jobId, event.time, Failures.of(event)))

  override def onTaskEnd(event: SparkListenerTaskEnd): Unit = if (worker.isDefined) Guard.run(tasks.add(event))

  override def onStageCompleted(event: SparkListenerStageCompleted): Unit = if (worker.isDefined) Guard.run {
    val cost = Stages.cost(event.stageInfo, tasks.take(event.stageInfo))
    hand(_.stageCompleted(cost))
  }

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case start: SparkListenerSQLExecutionStart =>
      // Spark forgets a query when it ends: hold it from here on.
      val query = Guard.orElse(Access.noQuery)(Access.runningQuery(start.executionId))
      hand(_.executionStarted(start, query))
    case end: SparkListenerSQLExecutionEnd =>
      hand(_.executionEnded(end.executionId, end.time, Access.queryOf(end), Failures.of(end)))
    case _ =>
  }

  /** For whoever wants to see the events of a running application now. */
  def flush(timeoutMs: Long): Boolean = worker.forall(_.flush(timeoutMs))

  /** Stop as if the application had ended. */
  def detach(): Unit = end(System.currentTimeMillis, None)

  def isActive: Boolean = worker.isDefined

  private def end(at: Long, exitCode: Option[Int]): Unit = {
    Agent.forget(this)
    worker.foreach(worker => Guard.run(worker.end(at, exitCode)))
  }

  private def hand(message: Application => Unit): Unit = worker.foreach(_.submit(message))
}
