package headgate.spark.listener

import java.util.UUID

import scala.collection.mutable

import org.apache.spark.sql.execution.QueryExecution

import headgate.spark.Parent
import headgate.spark.facet.{RunRef, StageCost}
import headgate.spark.plan.{ActionFacts, Execution, ReadSettings, Statistics, Target}

/** One user action while it goes on: its executions, what its callers set, and what its stages cost. */
final class Action(rootId: Long, val startedAt: Long, callSite: String, details: String) {
  import Action._

  val runId: UUID = RunId.at(startedAt)
  private val executions = mutable.LinkedHashMap.empty[Long, Execution]
  private val stages = mutable.ArrayBuffer.empty[StageCost]
  private val silenced = mutable.HashSet.empty[Long]
  private var targets: Seq[Target] = Nil
  private var told: Option[RunRef] = None
  private var hasJobs = false
  var isQuiet = false
  var parent: Option[Parent] = None

  /** The run as its START has named it. */
  def startedAs: Option[RunRef] = told

  def name(name: RunRef): Unit = told = Some(name)

  /** What the user has called: the same when the action begins and when it has ended. */
  val verb: String = CallSite.verb(callSite, details)

  /** `USE db` or `SHOW TABLES` leave nothing to tell: no data, no stage. */
  def isWorthTelling(facts: ActionFacts): Boolean =
    !isInference(facts) && (told.isDefined || facts.inputs.nonEmpty || facts.outputs.nonEmpty || stages.nonEmpty)

  /** Some of it will be known only when it has ended: to whom a batch of a stream is handed, above all. */
  def isUnclear(outline: ActionFacts): Boolean =
    isInference(outline) || outline.outputs.isEmpty && (outline.isStreaming || verb == "stream")

  /** No action of the user's, but Spark reading files for their schema. */
  def isInference(facts: ActionFacts): Boolean =
    CallSite.isReader(callSite) && facts.outputs.isEmpty && facts.sql.isEmpty

  def add(id: Long, query: QueryExecution, failed: Boolean): Unit =
    if (!silenced(id)) executions(id) = Execution(id, verb, query, failed)

  /** An execution inside may be silent by itself: the rest of the action, such as a stream's batch, is told. */
  def isSilent: Boolean = silenced(rootId)

  def wish(id: Long, wishes: Wishes): Unit =
    if (wishes.isSilent) {
      silenced += id
      executions -= id
    } else {
      targets = (targets ++ wishes.targets).distinct
      parent = wishes.parent.orElse(parent)
    }

  /** Local properties come with a job, so that what is wished for may be known only now. */
  def wishByJob(id: Long, wishes: Wishes): Unit = {
    wish(id, wishes)
    hasJobs ||= !wishes.isSilent
  }

  def isLong(now: Long): Boolean = startedAt + LongMs <= now

  /** When its START should no longer wait for its end, nor for a first job and what that says of it. */
  def dueAt: Long = startedAt + (if (hasJobs) LongMs else LongestPlanningMs)

  def add(stage: StageCost): Unit = if (stages.size < MaxStages) stages += stage

  def costs: Seq[StageCost] = stages.toList

  def inOrder: Seq[Execution] = executions.values.toList.sortBy(_.id)

  def settings(maskLiterals: Boolean): ReadSettings = ReadSettings(maskLiterals, targets)

  /** Where the plan has no figures of what was written, the stages have, if there is no doubt whose they are. */
  def measured(facts: ActionFacts): ActionFacts = {
    val last = stages.groupBy(_.stageId).values.map(_.maxBy(_.attempt))
    def total(counter: String) = last.map(_.counter(counter)).sum
    facts.outputs.map(_.dataset.id) match {
      case Seq(only) if !facts.outputStatistics.contains(only) && total("output_records") > 0 =>
        val written = Statistics(Some(total("output_records")), Some(total("output_bytes")))
        facts.copy(outputStatistics = facts.outputStatistics + (only -> written))
      case _ => facts
    }
  }
}

object Action {
  private val MaxStages = 2000
  val LongMs = 1000L
  private val LongestPlanningMs = 10000L
}

/** A job outside any SQL execution: an RDD action. */
final class RddJob(val startedAt: Long, val callSite: String, val parent: Option[Parent]) {
  val runId: UUID = RunId.at(startedAt)
  val stages = mutable.ArrayBuffer.empty[StageCost]
  val dueAt: Long = startedAt + Action.LongMs
  var isTold = false
}
