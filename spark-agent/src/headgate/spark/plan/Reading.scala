package headgate.spark.plan

import scala.collection.mutable

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** The executions of one user action, root first, put together. */
private[plan] final class Reading(executions: Seq[Execution], settings: ReadSettings) {
  import Reading._

  private val plans: Seq[(Execution, LogicalPlan)] =
    executions.flatMap(one => Reflect.guarded(one.query.analyzed).map(one -> _))

  // Rows that one execution hands to another keep their columns' ids.
  private lazy val foreign: Map[Long, LogicalPlan] = if (plans.size < 2) Map.empty else handedOn

  private val parts: Seq[Part] = plans.map { case (one, plan) =>
    new Part(one, plan, settings, id => foreign.contains(id))
  }

  private val deeds: Seq[Deed] = parts.flatMap(_.deeds)

  private val outputs: Seq[Output] = Outputs.merged(deeds.flatMap(_.outputs))

  private val places: Map[DatasetId, DatasetId] = Outputs.placesOf(deeds.flatMap(_.outputs))

  private def idsOf(deed: Deed): Seq[DatasetId] =
    deed.outputs.map(_.dataset.id).map(id => places.getOrElse(id, id))

  private lazy val inputs: Seq[(Part, Inputs)] = {
    val written = outputs.map(_.dataset.id).toSet
    parts.filterNot(_.readsNothing).map { part =>
      val inputs = part.inputs(written)
      inputs.walk(part.plan)
      (part, inputs)
    }
  }

  lazy val outline: ActionFacts = {
    val (sent, leftOut) = InputLimits.of(Inputs.distinct(inputs.flatMap(_._2.datasets) ++ deeds.flatMap(_.inputs)))
    ActionFacts(
      command = command,
      sql = SqlText.of(executions, settings),
      inputs = sent,
      outputs = outputs,
      lost = (losses ++ leftOut ++ deeds.flatMap(_.lost)).distinct,
      isStreaming = parts.exists(_.isStreaming))
  }

  private def command: String =
    deeds.headOption.map(_.command).orElse(executions.headOption.map(_.name)).getOrElse("query")

  // A table format reads its own log in executions of its own, which say nothing of what the user did.
  private def losses: Seq[String] = {
    val telling = if (deeds.isEmpty) inputs else inputs.filter(_._1.deeds.nonEmpty)
    telling.flatMap(_._2.lost)
  }

  def whole: ActionFacts = {
    val (columns, lost) = lineage
    val (read, written) = statistics
    outline.copy(
      columns = columns,
      inputStatistics = read,
      outputStatistics = written,
      lost = (outline.lost ++ lost).distinct)
  }

  /** The first execution that can say how an output's columns came about says it: the outer one, if it can. */
  private def lineage: (Map[DatasetId, ColumnLineage], Seq[String]) = {
    val found = mutable.LinkedHashMap.empty[DatasetId, ColumnLineage]
    val lost = mutable.LinkedHashSet.empty[String]
    for (part <- parts; deed <- part.deeds; ids = idsOf(deed) if ids.exists(!found.contains(_))) {
      val columns = new Columns(part.inputs(ids.toSet).idOf, settings, foreign)
      Reflect.guarded(followed(columns, deed)).flatten.map(shown(_, deed)).filter(saysSomething).foreach { lineage =>
        ids.filterNot(found.contains).foreach(found.put(_, lineage))
      }
      lost ++= columns.lost
    }
    (found.toMap, lost.toSeq)
  }

  private def followed(columns: Columns, deed: Deed): Option[ColumnLineage] =
    deed.rows.filter(_.query.resolved).map(rows => columns.lineage(rows.query, rows.names))
      .orElse(deed.change.map(columns.merge))

  private def handedOn: Map[Long, LogicalPlan] = {
    val all = mutable.HashMap.empty[Long, LogicalPlan]
    for ((_, plan) <- plans; query <- Part.queriesIn(plan) if query.resolved; column <- query.output)
      if (!all.contains(column.exprId.id)) all.put(column.exprId.id, query)
    all.toMap
  }

  private def statistics: (Map[DatasetId, Statistics], Map[DatasetId, Statistics]) = {
    val metrics = new Metrics
    inputs.filterNot(_._1.execution.failed).foreach { case (part, inputs) =>
      Reflect.guarded(metrics.walk(part.execution.query.executedPlan, part, inputs))
    }
    (metrics.read, metrics.written)
  }
}

private object Reading {
  // What the engine adds to rows in staging, and takes off again before they are published.
  private val OwnColumns = "_headgate_"

  private def shown(lineage: ColumnLineage, deed: Deed): ColumnLineage =
    if (deed.outputs.exists(_.isStaged)) lineage.without(_.startsWith(OwnColumns)) else lineage

  private def saysSomething(lineage: ColumnLineage): Boolean =
    lineage.dataset.nonEmpty || lineage.fields.exists(_._2.nonEmpty)
}
