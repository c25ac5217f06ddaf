package org.apache.spark.sql.headgate

import org.apache.spark.sql.execution.{QueryExecution, SQLExecution}
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd

/** What Spark keeps to its own packages and a listener cannot do without. */
object Access {
  val noQuery: Option[QueryExecution] = None

  def queryOf(end: SparkListenerSQLExecutionEnd): Option[QueryExecution] = Option(end.qe)

  def failureOf(end: SparkListenerSQLExecutionEnd): Option[Throwable] = end.executionFailure

  def runningQuery(executionId: Long): Option[QueryExecution] = Option(SQLExecution.getQueryExecution(executionId))
}
