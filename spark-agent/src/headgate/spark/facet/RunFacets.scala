package headgate.spark.facet

import java.time.Instant

import headgate.spark.plan.ActionFacts

/** A run and its job as OpenLineage writes them. */
final class RunFacets(json: Json, engine: Engine) {

  def write(event: RunEvent, facts: Option[ActionFacts]): Unit = {
    facet("processing_engine", "ProcessingEngineRunFacet") {
      json.field("version", engine.version)
      json.field("name", "spark")
      json.field("openlineageAdapterVersion", Version.agent)
    }
    event.parent.foreach(parent(_, event.root))
    event.application.foreach(application)
    event.failure.foreach(failure)
    // START tells the application too: the server finds a run by it while it goes on.
    facet("headgate_stages", "StagesRunFacet") {
      json.field("applicationId", engine.applicationId)
      json.each("stages", event.stages)(stage)
    }
    event.extractionMicros.foreach(extraction(_, facts))
  }

  def ofJob(event: RunEvent, sql: Option[String]): Unit = {
    facet("jobType", "JobTypeJobFacet") {
      json.field("processingType", if (event.isStreaming) "STREAMING" else "BATCH")
      json.field("integration", "SPARK")
      json.field("jobType", event.jobType)
    }
    sql.foreach { text =>
      facet("sql", "SQLJobFacet") {
        json.field("query", text.take(RunFacets.MaxSql))
        json.field("dialect", "spark")
      }
    }
  }

  private def parent(parent: RunRef, root: Option[RunRef]): Unit = facet("parent", "ParentRunFacet") {
    reference(parent)
    root.foreach(r => json.key("root").obj(reference(r)))
  }

  private def reference(run: RunRef): Unit = {
    json.key("run").obj(json.field("runId", run.runId.toString))
    json.key("job").obj(Events.named(json, run.job))
  }

  private def application(details: ApplicationDetails): Unit =
    facet("spark_applicationDetails", "SparkApplicationDetailsRunFacet") {
      json.field("master", details.master)
      json.field("appName", details.name)
      json.field("applicationId", engine.applicationId)
      json.field("userName", details.user)
      json.field("uiWebUrl", details.uiUrl)
    }

  private def failure(failure: Failure): Unit = facet("errorMessage", "ErrorMessageRunFacet") {
    json.field("message", failure.message)
    json.field("programmingLanguage", "SCALA")
    json.field("stackTrace", failure.stackTrace)
  }

  private def stage(cost: StageCost): Unit = json.obj {
    json.field("stage_id", cost.stageId.toLong)
    json.field("attempt", cost.attempt.toLong)
    json.field("name", cost.name)
    json.field("started_at", cost.startedAt.map(Instant.ofEpochMilli(_).toString))
    json.field("ended_at", cost.endedAt.map(Instant.ofEpochMilli(_).toString))
    cost.counters.foreach { case (name, value) => json.field(name, value) }
  }

  private def extraction(micros: Long, facts: Option[ActionFacts]): Unit =
    facet("headgate_extraction", "ExtractionRunFacet") {
      json.field("micros", micros)
      facts.filter(_.lost.nonEmpty).foreach(f => json.each("lost", f.lost)(json.text))
    }

  private def facet(key: String, definition: String)(body: => Unit): Unit = Facets.write(json, key, definition)(body)
}

object RunFacets {
  private val MaxSql = 100000
}
