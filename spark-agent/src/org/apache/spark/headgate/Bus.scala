package org.apache.spark.headgate

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{JobFailed, JobResult, SparkListenerApplicationStart}

/** What Spark keeps to its own package: the listener bus, and why a job failed. */
object Bus {
  def awaitEmpty(timeoutMs: Long): Unit = SparkContext.getActive.foreach(_.listenerBus.waitUntilEmpty(timeoutMs))

  def uiUrl: Option[String] = SparkContext.getActive.flatMap(_.uiWebUrl)

  def failureOf(result: JobResult): Option[Throwable] = result match {
    case failed: JobFailed => Some(failed.exception)
    case _ => None
  }

  def applicationStart(context: SparkContext): SparkListenerApplicationStart = new SparkListenerApplicationStart(
    context.appName, Some(context.applicationId), context.startTime, context.sparkUser,
    context.applicationAttemptId, None, None)
}
