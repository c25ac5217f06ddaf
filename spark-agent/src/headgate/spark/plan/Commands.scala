package headgate.spark.plan

import org.apache.spark.sql.SaveMode
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{CatalogStorageFormat, CatalogTable}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.command._
import org.apache.spark.sql.execution.datasources._

/** The rows that a command writes, and the names of the columns they go to. */
final case class Rows(query: LogicalPlan, names: Seq[String])

/** What a command does: its verb, what it leaves changed, and the rows it writes or the change it makes to rows. */
final case class Deed(
    command: String,
    outputs: Seq[Output] = Nil,
    rows: Option[Rows] = None,
    change: Option[LogicalPlan] = None,
    lost: Option[String] = None,
    readsNothing: Boolean = false,
    inputs: Seq[Dataset] = Nil)

/** What the commands of the v1 API write: one case for each command. */
final class Commands(site: Site, tables: Tables, leaves: Leaves) {

  private val definitions = new Definitions(site, tables)
  private val v2 = new V2Commands(site, tables, leaves)
  private val sinks = new Sinks(site, tables, leaves)

  def of(plan: LogicalPlan): Option[Deed] = plan match {
    case c: InsertIntoHadoopFsRelationCommand => Some(toFiles(c))
    case c: CreateDataSourceTableAsSelectCommand => Some(toNewTable(c.table, c.mode, c.query, c.outputColumnNames))
    case c: InsertIntoDataSourceCommand => Some(toRelation(c))
    case c: SaveIntoDataSourceCommand => Some(sinks.save(c))
    case c: InsertIntoDataSourceDirCommand => toDirectory(c.storage, c.provider, c.query, c.overwrite)
    case _ => byName(plan).orElse(definitions.of(plan)).orElse(v2.of(plan)).orElse(sinks.stream(plan))
  }

  // Hive's commands are in a jar that may be absent, the others not in every version.
  private def byName(plan: LogicalPlan): Option[Deed] = Reflect.simpleName(plan) match {
    case "SaveAsV1TableCommand" => saveAsTable(plan)
    case "CreateHiveTableAsSelectCommand" | "OptimizedCreateHiveTableAsSelectCommand" => saveAsTable(plan)
    case "InsertIntoHiveTable" => intoHive(plan)
    case "InsertIntoHiveDirCommand" =>
      for {
        storage <- Reflect.member(plan, "storage").collect { case storage: CatalogStorageFormat => storage }
        query <- Commands.queryOf(plan)
        deed <- toDirectory(storage, "hive", query, Reflect.member(plan, "overwrite").contains(true))
      } yield deed
    case _ => None
  }

  private def toFiles(command: InsertIntoHadoopFsRelationCommand): Deed = {
    val rows = Rows(command.query, command.outputColumnNames)
    val state = Commands.lifecycle(command.mode)
    command.catalogTable match {
      case Some(table) =>
        Deed("insert", Seq(Output(tables.of(table, Commands.schemaOf(rows)), state.filter(_ != "CREATE"))), Some(rows))
      case None =>
        val target = Commands.files(site.location(command.outputPath.toUri), Formats.of(command.fileFormat))
        Deed("write", Seq(Output(target.copy(schema = Commands.schemaOf(rows)), state)), Some(rows))
    }
  }

  private def toNewTable(table: CatalogTable, mode: SaveMode, query: LogicalPlan, names: Seq[String]): Deed = {
    val rows = Rows(query, names)
    val verb = if (mode == SaveMode.Append) "insert" else "create_table"
    Deed(verb, Seq(Output(tables.of(table, Commands.schemaOf(rows)), Commands.lifecycle(mode))), Some(rows))
  }

  private def toRelation(command: InsertIntoDataSourceCommand): Deed = {
    val read = leaves.of(command.logicalRelation)
    val names = command.logicalRelation.output.map(_.name)
    val state = if (command.overwrite) Some("OVERWRITE") else None
    Deed("insert", read.datasets.map(Output(_, state)), Some(Rows(command.query, names)), lost = read.lost)
  }

  private def toDirectory(
      storage: CatalogStorageFormat,
      provider: String,
      query: LogicalPlan,
      overwrite: Boolean): Option[Deed] =
    storage.locationUri.map { uri =>
      val rows = Rows(query, query.output.map(_.name))
      val isHive = provider == "hive"
      val format = if (isHive) Storage("file", Formats.ofSerde(storage.serde)) else Formats.storage(provider)
      val target = Commands.files(site.location(uri), format).copy(schema = Commands.schemaOf(rows))
      Deed("write", Seq(Output(target, if (overwrite) Some("OVERWRITE") else None)), Some(rows))
    }

  private def saveAsTable(plan: LogicalPlan): Option[Deed] = for {
    table <- Commands.tableOf(plan)
    mode <- Reflect.member(plan, "mode").collect { case mode: SaveMode => mode }
    query <- Commands.queryOf(plan)
  } yield toNewTable(table, mode, query, Commands.namesOf(plan).getOrElse(query.output.map(_.name)))

  private def intoHive(plan: LogicalPlan): Option[Deed] = for {
    table <- Commands.tableOf(plan)
    query <- Commands.queryOf(plan)
  } yield {
    val state = if (Reflect.member(plan, "overwrite").contains(true)) Some("OVERWRITE") else None
    val names = Commands.namesOf(plan).getOrElse(query.output.map(_.name))
    Deed("insert", Seq(Output(tables.of(table, Nil), state)), Some(Rows(query, names)))
  }
}

object Commands {

  /** A write that leaves alone what is there does not say whether it found something. */
  def lifecycle(mode: SaveMode): Option[String] = mode match {
    case SaveMode.Overwrite => Some("OVERWRITE")
    case SaveMode.ErrorIfExists => Some("CREATE")
    case _ => None
  }

  def schemaOf(rows: Rows): Seq[SchemaField] =
    if (rows.query.resolved) Schemas.of(rows.query.output, rows.names) else Nil

  def files(id: DatasetId, storage: Storage): Dataset = {
    val kind = if (storage.layer == "file") "FILE" else "TABLE"
    Dataset(id, datasetType = Some(kind), sourceUri = Some(Locations.uri(id)), storage = Some(storage))
  }

  def queryOf(plan: LogicalPlan): Option[LogicalPlan] =
    Reflect.member(plan, "query").collect { case query: LogicalPlan => query }

  def tableOf(plan: LogicalPlan): Option[CatalogTable] =
    Reflect.firstMember(plan, "tableDesc", "table").collect { case table: CatalogTable => table }

  def identifierOf(plan: LogicalPlan, names: String*): Option[TableIdentifier] =
    Reflect.firstMember(plan, names: _*).collect { case name: TableIdentifier => name }

  def namesOf(plan: LogicalPlan): Option[Seq[String]] =
    Reflect.member(plan, "outputColumnNames").collect { case names: Seq[_] => names.map(_.toString) }
}
