package headgate.spark.plan

import java.util.{ArrayDeque, IdentityHashMap}

import scala.collection.mutable

import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical.{Command, CommandResult, LogicalPlan, View}
import org.apache.spark.sql.execution.columnar.InMemoryRelation

/** Walks plans once, node by node, and keeps what their leaves read. */
final class Inputs(leaves: Leaves, tables: Tables, isIgnored: DatasetId => Boolean) {

  private val found = mutable.LinkedHashMap.empty[DatasetId, Dataset]
  private val lostHere = mutable.LinkedHashSet.empty[String]
  private val owners = mutable.LongMap.empty[DatasetId]
  private val reads = new IdentityHashMap[LogicalPlan, Read]
  private val seen = new IdentityHashMap[LogicalPlan, java.lang.Boolean]

  def datasets: Seq[Dataset] = found.values.toSeq
  def lost: Seq[String] = lostHere.toSeq

  /** The leaf's first dataset: columns of one leaf can belong to one dataset only. */
  def idOf(leaf: LogicalPlan): Option[DatasetId] =
    Some(readOf(leaf)).filter(_.hasColumns).flatMap(_.datasets.headOption).map(_.id).filterNot(isIgnored)

  /** The dataset of a leaf's column, by the id of the column. */
  def ownerOf(column: Long): Option[DatasetId] = owners.get(column)

  def onlyOne: Option[DatasetId] = if (found.size == 1) found.keys.headOption else None

  def walk(plan: LogicalPlan): Unit = {
    val open = new ArrayDeque[(LogicalPlan, Boolean)]
    open.push((plan, false))
    while (!open.isEmpty) {
      val (node, isInView) = open.pop()
      if (seen.put(node, true) == null) visit(node, isInView, open)
    }
  }

  private def visit(node: LogicalPlan, isInView: Boolean, open: ArrayDeque[(LogicalPlan, Boolean)]): Unit = node match {
    // The command has had an execution of its own.
    case _: CommandResult =>
    case view: View if !view.isTempView =>
      if (!isInView) keep(Seq(viewOf(view)))
      open.push((view.child, true))
    case other =>
      val parts = Inputs.partsOf(other)
      if (parts.isEmpty && !other.isInstanceOf[Command]) take(other)
      parts.reverseIterator.foreach(part => open.push((part, isInView)))
  }

  private def viewOf(view: View): Dataset =
    tables.view(view.desc.identifier).copy(schema = Schemas.of(view.output))

  private def readOf(leaf: LogicalPlan): Read = {
    val known = reads.get(leaf)
    if (known != null) known
    else {
      val read = leaves.of(leaf)
      reads.put(leaf, read)
      read
    }
  }

  private def take(leaf: LogicalPlan): Unit = {
    val read = readOf(leaf)
    keep(read.datasets)
    lostHere ++= read.lost
    for (id <- idOf(leaf) if owners.size < Inputs.OwnersLimit; column <- leaf.output) owners.put(column.exprId.id, id)
  }

  private def keep(datasets: Seq[Dataset]): Unit =
    datasets.foreach { dataset =>
      if (!isIgnored(dataset.id) && !found.contains(dataset.id)) {
        if (found.size < InputLimits.Datasets) found.put(dataset.id, dataset) else lostHere += InputLimits.TooMany
      }
    }
}

object Inputs {
  private val OwnersLimit = 500000

  /** Children, the queries inside commands, the subqueries inside expressions, and what a cache was filled from. */
  def partsOf(node: LogicalPlan): Seq[LogicalPlan] = node match {
    case relation: InMemoryRelation => cached(relation)
    case other => other.children ++ plans(other.innerChildren) ++ other.subqueries
  }

  /** Since 4.0 only; before, a plan that was analysed never held cached data. */
  def cached(relation: InMemoryRelation): Seq[LogicalPlan] =
    Reflect.walk(relation, "cacheBuilder", "logicalPlan").toSeq.collect { case plan: LogicalPlan => plan }

  def distinct(datasets: Seq[Dataset]): Seq[Dataset] = {
    val byId = mutable.LinkedHashMap.empty[DatasetId, Dataset]
    datasets.foreach(one => if (!byId.contains(one.id)) byId.put(one.id, one))
    byId.values.toSeq
  }

  private def plans(nodes: Seq[QueryPlan[_]]): Seq[LogicalPlan] = nodes.collect { case plan: LogicalPlan => plan }
}
