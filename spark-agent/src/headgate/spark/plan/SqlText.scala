package headgate.spark.plan

import org.apache.spark.sql.catalyst.plans.logical.{Command, LogicalPlan}

/** The statement that the user sent, when the action was one of SQL. */
object SqlText {

  def of(executions: Seq[Execution], settings: ReadSettings): Option[String] = for {
    root <- executions.headOption
    text <- Reflect.guarded(statement(root)).flatten
  } yield withoutSecrets(if (settings.maskLiterals) Masking.sql(text) else text)

  /** Options of a connector may be written into a statement, credentials among them. */
  private[plan] def withoutSecrets(text: String): String = Redaction.sql(text)

  // A frame built on a statement is more than that statement: then only the topmost node counts. A command that is not
  // SQL itself, or that analysis has put together anew, has the text of the whole query that it writes.
  private def statement(root: Execution): Option[String] = root.query.logical match {
    case command: Command => textOf(command).orElse(Inputs.partsOf(command).flatMap(textOf).headOption)
    case frame => textOf(frame)
  }

  private def textOf(plan: LogicalPlan): Option[String] = plan.origin.sqlText.map(_.trim).filter(_.nonEmpty)
}
