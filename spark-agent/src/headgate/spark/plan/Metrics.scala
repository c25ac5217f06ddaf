package headgate.spark.plan

import java.util.{ArrayDeque, IdentityHashMap}

import scala.collection.mutable

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}
import org.apache.spark.sql.execution.command.DataWritingCommandExec

/** Rows, bytes and files from the figures that the nodes of executed plans keep. */
final class Metrics {

  private val readSoFar = mutable.LinkedHashMap.empty[DatasetId, Statistics]
  private val writtenSoFar = mutable.LinkedHashMap.empty[DatasetId, Statistics]
  private val seen = new IdentityHashMap[SparkPlan, java.lang.Boolean]

  def read: Map[DatasetId, Statistics] = readSoFar.toMap
  def written: Map[DatasetId, Statistics] = writtenSoFar.toMap

  def walk(plan: SparkPlan, part: Part, inputs: Inputs): Unit = {
    val open = new ArrayDeque[SparkPlan]
    open.push(plan)
    while (!open.isEmpty) {
      val node = open.pop()
      if (seen.put(node, true) == null) {
        Reflect.guarded(take(node, part, inputs))
        Metrics.partsOf(node).foreach(open.push)
      }
    }
  }

  private def take(node: SparkPlan, part: Part, inputs: Inputs): Unit = node match {
    case write: DataWritingCommandExec =>
      add(writtenSoFar, targetOf(part.deedOf(write.cmd).toSeq), Metrics.writtenBy(write))
    case _ if Metrics.isV2Write(node) => add(writtenSoFar, targetOf(part.deeds), Metrics.writtenBy(node))
    case _ if Metrics.isScan(node) => add(readSoFar, sourceOf(node, inputs), Metrics.readBy(node))
    case _ =>
  }

  private def targetOf(deeds: Seq[Deed]): Option[DatasetId] = deeds.flatMap(_.outputs).headOption.map(_.dataset.id)

  // A scan that only counts has no columns to be known by.
  private def sourceOf(scan: SparkPlan, inputs: Inputs): Option[DatasetId] =
    if (scan.output.isEmpty) inputs.onlyOne
    else scan.output.iterator.map(column => inputs.ownerOf(column.exprId.id)).collectFirst { case Some(id) => id }

  private def add(all: mutable.Map[DatasetId, Statistics], to: Option[DatasetId], more: Statistics): Unit =
    to.filter(_ => more != Statistics()).foreach { id =>
      all.put(id, all.get(id).map(Metrics.sum(_, more)).getOrElse(more))
    }
}

object Metrics {

  private def sum(a: Statistics, b: Statistics): Statistics =
    Statistics(plus(a.rows, b.rows), plus(a.bytes, b.bytes), plus(a.files, b.files))

  private def plus(a: Option[Long], b: Option[Long]): Option[Long] = if (a.isEmpty) b else a.map(_ + b.getOrElse(0L))

  private def partsOf(node: SparkPlan): Seq[SparkPlan] = node match {
    case adaptive: AdaptiveSparkPlanExec => Seq(adaptive.executedPlan)
    case stage: QueryStageExec => Seq(stage.plan)
    case other => other.children ++ other.subqueries
  }

  private def isV2Write(node: SparkPlan): Boolean =
    Reflect.isA(node, "org.apache.spark.sql.execution.datasources.v2.V2TableWriteExec")

  private def isScan(node: SparkPlan): Boolean =
    node.children.isEmpty && node.metrics.contains("numOutputRows") && Reflect.simpleName(node).contains("Scan") &&
      !Reflect.simpleName(node).startsWith("InMemoryTable")

  private def writtenBy(node: SparkPlan): Statistics =
    Statistics(value(node, "numOutputRows"), value(node, "numOutputBytes"), value(node, "numFiles"))

  private def readBy(node: SparkPlan): Statistics =
    Statistics(value(node, "numOutputRows"), value(node, "filesSize"), value(node, "numFiles"))

  // A figure that was never set is negative in some versions.
  private def value(node: SparkPlan, name: String): Option[Long] = node.metrics.get(name).map(_.value).filter(_ >= 0)
}
