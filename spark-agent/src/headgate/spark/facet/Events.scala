package headgate.spark.facet

import java.time.Instant
import java.util.UUID

import headgate.spark.plan.{ActionFacts, DatasetId, Statistics}

final case class JobName(namespace: String, name: String)

final case class RunRef(job: JobName, runId: UUID)

final case class Failure(message: String, stackTrace: String)

/** What every event of one application says. */
final case class Engine(version: String, applicationId: String)

/** How an application was started: for the facet of its own run. */
final case class ApplicationDetails(name: String, master: String, user: String, uiUrl: Option[String])

/** One stage attempt: a counter's name and value, in the server's words. */
final case class StageCost(
    stageId: Int,
    attempt: Int,
    name: String,
    startedAt: Option[Long],
    endedAt: Option[Long],
    counters: Seq[(String, Long)]) {
  def counter(name: String): Long = counters.collectFirst { case (`name`, value) => value }.getOrElse(0L)
}

/** A run's event, but for what it read and wrote. */
final case class RunEvent(
    eventType: String,
    at: Long,
    run: RunRef,
    parent: Option[RunRef],
    root: Option[RunRef],
    jobType: String,
    isStreaming: Boolean = false,
    failure: Option[Failure] = None,
    stages: Seq[StageCost] = Nil,
    extractionMicros: Option[Long] = None,
    application: Option[ApplicationDetails] = None)

/** Makes OpenLineage events. */
final class Events(engine: Engine) {
  import Events._

  def write(event: RunEvent, facts: Option[ActionFacts]): Array[Byte] = {
    val json = new Json
    json.obj {
      json.field("eventType", event.eventType)
      json.field("eventTime", Instant.ofEpochMilli(event.at).toString)
      json.field("producer", Facets.Producer)
      json.field("schemaURL", Facets.RunEvent)
      json.key("run").obj {
        json.field("runId", event.run.runId.toString)
        json.key("facets").obj(new RunFacets(json, engine).write(event, facts))
      }
      json.key("job").obj {
        named(json, event.run.job)
        json.key("facets").obj(new RunFacets(json, engine).ofJob(event, facts.flatMap(_.sql)))
      }
      datasets(json, facts)
    }
    json.bytes
  }

  private def datasets(json: Json, facts: Option[ActionFacts]): Unit = {
    val facets = new DatasetFacets(json)
    json.each("inputs", facts.map(_.inputs).getOrElse(Nil)) { input =>
      facets.input(input, facts.flatMap(_.inputStatistics.get(input.id)))
    }
    json.each("outputs", facts.map(_.outputs).getOrElse(Nil)) { output =>
      val id = output.dataset.id
      facets.output(output, facts.flatMap(_.columns.get(id)), facts.flatMap(_.outputStatistics.get(id)))
    }
  }
}

object Events {
  def named(json: Json, job: JobName): Unit = {
    json.field("namespace", job.namespace)
    json.field("name", job.name)
  }
}
