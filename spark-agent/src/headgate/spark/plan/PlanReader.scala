package headgate.spark.plan

import org.apache.spark.sql.execution.QueryExecution

/** One SQL execution as the listener saw it. */
final case class Execution(id: Long, name: String, query: QueryExecution, failed: Boolean)

/** Where a staging path will be published: to a path, or to the dataset of a namespace and a name. */
final case class Target(staging: String, name: String, namespace: Option[String] = None)

/** Settings of one action: whether literals are masked, and where staging paths will be published. */
final case class ReadSettings(maskLiterals: Boolean = false, targets: Seq[Target] = Nil)

/** Puts the executions of one user action together. */
object PlanReader {

  /** What the action is called and writes to, cheaply: before it has ended, and without columns or statistics. */
  def outline(executions: Seq[Execution], settings: ReadSettings): ActionFacts =
    new Reading(executions, settings).outline

  /** Everything; called once, when the action has ended. Executions come in the order they started, the root first. */
  def read(executions: Seq[Execution], settings: ReadSettings): ActionFacts = new Reading(executions, settings).whole
}
