package headgate.spark.listener

import java.util.{Locale, UUID}

import headgate.spark.Parent
import headgate.spark.facet.{JobName, RunRef}
import headgate.spark.plan.{ActionFacts, Dataset}

/** Names that stay the same from run to run: the application, what it does, and to what. */
object JobNames {
  private val MaxInputs = 3
  private val MaxPart = 200

  def application(name: String): String = plain(name.stripSuffix(".py")) match {
    case "" => "spark_application"
    case name => name
  }

  def action(application: String, facts: ActionFacts): String = {
    val subjects = if (facts.outputs.nonEmpty) facts.outputs.take(1).map(_.dataset) else facts.inputs.take(MaxInputs)
    (Seq(application, plain(facts.command)) ++ Some(subjects.map(short).mkString("_")).filter(_.nonEmpty)).mkString(".")
  }

  def rdd(application: String, callSite: String): String =
    s"$application.rdd.${plain(CallSite.verb(callSite))}"

  def reference(parent: Parent): RunRef =
    RunRef(JobName(parent.namespace, parent.name), UUID.fromString(parent.runId))

  /** A table by its own name; a path by its last two folders that name no partition and no day. */
  private def short(dataset: Dataset): String = plain(dataset.symlinks.headOption.map(_.name).getOrElse {
    val folders = dataset.id.name.split('/').filter(_.nonEmpty)
    folders.filterNot(isOfOneRun).takeRight(2).mkString("_")
  })

  private def isOfOneRun(folder: String): Boolean =
    folder.contains('=') || folder.count(_.isDigit) * 2 > folder.length

  private def plain(text: String): String = text.toLowerCase(Locale.ROOT).take(MaxPart).map { c =>
    if (c.isLetterOrDigit || c == '_' || c == '-') c else '_'
  }
}
