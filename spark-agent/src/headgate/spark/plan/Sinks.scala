package headgate.spark.plan

import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/** Where rows go that are handed to a connector, or to the sink of a stream. */
final class Sinks(site: Site, tables: Tables, leaves: Leaves) {

  def save(command: SaveIntoDataSourceCommand): Deed = {
    val rows = Rows(command.query, command.query.output.map(_.name))
    deed("write", target(command.dataSource, command.options), rows, Commands.lifecycle(command.mode))
  }

  /** A micro-batch: its write is no command but the topmost node of the plan. */
  def stream(plan: LogicalPlan): Option[Deed] = Reflect.simpleName(plan) match {
    case "WriteToMicroBatchDataSourceV1" => batch(plan, v1Target(plan))
    case "WriteToMicroBatchDataSource" | "WriteToContinuousDataSource" => batch(plan, v2Target(plan))
    case _ => None
  }

  private def batch(plan: LogicalPlan, read: Read): Option[Deed] =
    Commands.queryOf(plan).map(query => deed("write", read, Rows(query, query.output.map(_.name)), None))

  private def v1Target(plan: LogicalPlan): Read = {
    val sink = Reflect.member(plan, "sink")
    val table = Reflect.walk(plan, "catalogTable").collect { case table: CatalogTable => Read(Seq(tables.of(table))) }
    val options = writeOptions(plan)
    table.orElse(sink.map(one => fileSink(one).getOrElse(target(one, options)))).getOrElse(Read())
  }

  private def fileSink(sink: Any): Option[Read] =
    if (Reflect.simpleName(sink) != "FileStreamSink") None
    else Reflect.text(sink, "path").flatMap(path => site.location(path)).map { id =>
      val storage = Reflect.member(sink, "fileFormat").map(Formats.of).getOrElse(Storage("file", None))
      Read(Seq(Commands.files(id, storage)))
    }

  private def v2Target(plan: LogicalPlan): Read = {
    val options = writeOptions(plan)
    Reflect.walk(plan, "relation").collect { case relation: DataSourceV2Relation => leaves.v2.of(relation) }
      .filter(_.datasets.nonEmpty)
      .orElse(Reflect.member(plan, "table").collect { case table: Table => leaves.v2.of(table, None, None, options) })
      .getOrElse(Read())
  }

  private def writeOptions(plan: LogicalPlan): Map[String, String] =
    Reflect.member(plan, "writeOptions").flatMap(Connectors.asOptions).getOrElse(Map.empty)

  private def target(provider: Any, options: Map[String, String]): Read =
    leaves.connectors.of(provider, options).getOrElse {
      val path = Connectors.lowered(options).get("path").flatMap(text => site.location(text))
      val guessed = Formats.storage(provider.getClass.getName)
      val storage = if (guessed.layer == "file") Storage("file", None) else guessed
      path.map(id => Read(Seq(Commands.files(id, storage))))
        .getOrElse(Read(lost = Some(s"it is not known where ${Reflect.simpleName(provider)} writes to")))
    }

  private def deed(verb: String, read: Read, rows: Rows, state: Option[String]): Deed = {
    val outputs = read.withSchema(Commands.schemaOf(rows)).datasets.map(Output(_, state))
    Deed(verb, outputs, Some(rows).filter(_ => outputs.nonEmpty), lost = read.lost)
  }
}
