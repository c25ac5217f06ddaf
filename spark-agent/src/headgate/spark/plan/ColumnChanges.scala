package headgate.spark.plan

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, Literal}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** One column given a value by MERGE or UPDATE, in the rows that fulfil the condition. */
private[plan] final case class Assigned(column: String, value: Expression, condition: Option[Expression])

/** What MERGE, UPDATE and DELETE say: the tables they look at, what they assign, and what decides on rows. */
private[plan] final case class ColumnChanges(
    tables: Seq[LogicalPlan],
    assigned: Seq[Assigned],
    deciders: Seq[(Expression, Kind)])

/** Reads those commands by the names of their members: the classes differ between Spark, Delta and their versions. */
private[plan] object ColumnChanges {

  def of(command: LogicalPlan): ColumnChanges = {
    val source = planIn(command, "sourceTable", "source")
    val target = planIn(command, "targetTable", "target", "table", "child")
    val updates = clauses(
      command, "matchedActions", "matchedClauses", "notMatchedBySourceActions", "notMatchedBySourceClauses")
    val inserts = clauses(command, "notMatchedActions", "notMatchedClauses")
    val rows = if (source.isDefined) Kind.Join else Kind.Filter
    ColumnChanges(
      target.toSeq ++ source,
      updates.flatMap(assignedBy(_, isConditional = true)) ++
        inserts.flatMap(assignedBy(_, isConditional = false)) ++ updated(command, target),
      Reflect.firstMember(command, "mergeCondition", "condition").flatMap(expressionIn).map((_, rows)).toSeq ++
        inserts.flatMap(conditionOf).map((_, Kind.Filter)))
  }

  /** The query that the rewritten forms of these commands write, and the names of the table's columns. */
  def rewritten(command: LogicalPlan): Option[(LogicalPlan, Seq[String])] = Reflect.simpleName(command) match {
    case "ReplaceData" | "WriteDelta" =>
      planIn(command, "query").zip(planIn(command, "originalTable", "table")).headOption
        .map { case (query, table) => (query, table.output.map(_.name)) }
    case _ => None
  }

  /** What one column of a MERGE's rows is: the value that each of its clauses gives it, and when. */
  def merged(rows: LogicalPlan, position: Int): Seq[(Expression, Kind)] = {
    val updates = clauses(rows, "matchedInstructions", "notMatchedBySourceInstructions")
    val values = (updates ++ clauses(rows, "notMatchedInstructions")).flatMap(valuesOf(_, position))
    values.map((_, Kind.Identity)) ++ updates.flatMap(conditionOf).map((_, Kind.Conditional))
  }

  def insertedWhen(rows: LogicalPlan): Seq[Expression] = clauses(rows, "notMatchedInstructions").flatMap(conditionOf)

  private def valuesOf(clause: Any, position: Int): Seq[Expression] =
    seqIn(clause, "outputs").collect { case row: scala.collection.Seq[_] => row.lift(position) }
      .collect { case Some(value: Expression) => value }

  private def assignedBy(clause: Any, isConditional: Boolean): Seq[Assigned] = {
    val condition = if (isConditional) conditionOf(clause) else None
    (seqIn(clause, "assignments") ++ seqIn(clause, "actions")).flatMap(assignment(_, condition))
  }

  private def assignment(one: Any, condition: Option[Expression]): Option[Assigned] = for {
    value <- Reflect.firstMember(one, "value", "expr").flatMap(expressionIn)
    name <- Reflect.member(one, "key").flatMap(columnOf)
      .orElse(seqIn(one, "targetColNameParts").headOption.map(_.toString))
  } yield Assigned(name, value, condition)

  /** UPDATE by assignments, or, in Delta, by one expression for each column of the target. */
  private def updated(command: LogicalPlan, target: Option[LogicalPlan]): Seq[Assigned] = {
    val columns = seqIn(command, "updateColumns") match {
      case Seq() => target.toSeq.flatMap(_.output)
      case given => given
    }
    val values = seqIn(command, "updateExpressions").flatMap(expressionIn)
    seqIn(command, "assignments").flatMap(assignment(_, None)) ++
      columns.flatMap(columnOf).zip(values).map { case (name, value) => Assigned(name, value, None) }
  }

  private def columnOf(key: Any): Option[String] = key match {
    case column: Attribute => Some(column.name)
    case field: Expression => field.children.headOption.flatMap(columnOf)
    case _ => None
  }

  private def clauses(command: LogicalPlan, names: String*): Seq[Any] = names.flatMap(seqIn(command, _))

  private def conditionOf(clause: Any): Option[Expression] =
    Reflect.member(clause, "condition").flatMap(expressionIn).filterNot(_.isInstanceOf[Literal])

  private def planIn(command: LogicalPlan, names: String*): Option[LogicalPlan] =
    names.iterator.map(Reflect.member(command, _)).collectFirst { case Some(plan: LogicalPlan) => plan }

  private def seqIn(owner: Any, name: String): Seq[Any] = Reflect.member(owner, name) match {
    case Some(values: scala.collection.Seq[_]) => values.toList
    case _ => Nil
  }

  private def expressionIn(value: Any): Option[Expression] = value match {
    case one: Expression => Some(one)
    case Some(one: Expression) => Some(one)
    case _ => None
  }
}
