package headgate.spark.listener

import java.io.{PrintWriter, StringWriter}
import java.util.Properties

import scala.util.Try

import org.apache.spark.headgate.Bus
import org.apache.spark.scheduler.{SparkListenerApplicationEnd, SparkListenerJobEnd, SparkListenerJobStart}
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd
import org.apache.spark.sql.headgate.Access

import headgate.spark.Parent
import headgate.spark.facet.Failure
import headgate.spark.plan.Target

/** A job's start, with what its caller had set for it. */
final case class JobStart(
    jobId: Int,
    at: Long,
    executionId: Option[Long],
    stageIds: Seq[Int],
    callSite: String,
    wishes: Wishes)

object JobStart {

  def of(event: SparkListenerJobStart): JobStart = {
    val properties = Option(event.properties).getOrElse(new Properties)
    def property(name: String) = Option(properties.getProperty(name)).filter(_.nonEmpty)
    JobStart(
      event.jobId,
      event.time,
      property("spark.sql.execution.id").flatMap(id => Try(id.toLong).toOption),
      event.stageIds.toList,
      property("callSite.short").orElse(lastStageName(event)).getOrElse("job"),
      Wishes.of(property))
  }

  private def lastStageName(event: SparkListenerJobStart): Option[String] =
    if (event.stageInfos.isEmpty) None else Some(event.stageInfos.maxBy(_.stageId).name)
}

/** What a caller sets for the actions that follow, as local properties or settings of its session. */
final case class Wishes(parent: Option[Parent], targets: Seq[Target], isSilent: Boolean)

object Wishes {
  private val TargetsKey = "spark.headgate.action.targets"
  private val ParentKey = "spark.headgate.action.parent"
  private val SilentKey = "spark.headgate.action.silent"

  def of(property: String => Option[String]): Wishes = Wishes(
    property(ParentKey).flatMap(Parent.parse),
    property(TargetsKey).map(targets).getOrElse(Nil),
    property(SilentKey).exists(_.trim.equalsIgnoreCase("true")))

  /** One mapping a line: the staging path and its target, a path or a namespace and a name, with tabs between. */
  private def targets(text: String): Seq[Target] =
    text.split('\n').toList.map(_.split('\t')).filter(_.forall(_.nonEmpty)).collect {
      case Array(staging, path) => Target(staging, path)
      case Array(staging, namespace, name) => Target(staging, name, Some(namespace))
    }
}

/** Where in the user's program something was called, such as `collect at script.py:12`. */
object CallSite {
  private val Short = """(\w+) at \S.*:\d+""".r
  private val Long = """\S*?\.(\w+)\(.*""".r
  // Spark looks into files by jobs of its own, in the name of whoever asked for a reader or is about to write.
  private val Readers = Set(
    "parquet", "orc", "json", "csv", "xml", "text", "textFile", "load", "table", "sql",
    "create", "replace", "createOrReplace", "append", "overwrite", "overwritePartitions")
  // What Spark calls an action inside is not what its user has called.
  private val Called = Map(
    "collectToPython" -> "collect",
    "collectArrow" -> "collect",
    "collectAsArrowToPython" -> "collect",
    "collectToR" -> "collect",
    "toPythonIterator" -> "toLocalIterator",
    "tailToPython" -> "tail",
    "showString" -> "show",
    "htmlString" -> "show",
    "getRowsToPython" -> "show")

  /** The method; a job that was given a description of its own still has its place in the longer form. */
  def verb(short: String, long: String = ""): String =
    method(short).orElse(stream(short)).orElse(long.linesIterator.take(1).collectFirst { case Long(name) => name })
      .map(name => Called.getOrElse(name, name)).getOrElse("query")

  def isReader(short: String): Boolean = method(short).exists(Readers)

  private def method(short: String): Option[String] = Some(short).collect { case Short(name) => name }

  /** A stream's work is described by the ids of the stream. */
  private def stream(short: String): Option[String] = if (short.trim.startsWith("id = ")) Some("stream") else None
}

object Failures {
  // Cut to what is sent only when secrets are out: half of one would not be recognised.
  private val MaxHeard = 100000

  def of(event: SparkListenerJobEnd): Option[Failure] = Bus.failureOf(event.jobResult).map(of)

  def of(event: SparkListenerSQLExecutionEnd): Option[Failure] =
    Access.failureOf(event).map(of).orElse(event.errorMessage.filter(_.nonEmpty).map(text => Failure(cut(text), "")))

  def of(error: Throwable): Failure = {
    val trace = new StringWriter
    error.printStackTrace(new PrintWriter(trace))
    Failure(cut(Option(error.getMessage).getOrElse(error.toString)), cut(trace.toString))
  }

  private def cut(text: String) = text.take(MaxHeard)
}

object ExitCode {
  /** Spark 3.5 does not know it. */
  def of(event: SparkListenerApplicationEnd): Option[Int] = Try(
    event.getClass.getMethod("exitCode").invoke(event).asInstanceOf[Option[Int]]).toOption.flatten
}
