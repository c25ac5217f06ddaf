package headgate.spark.plan

import java.util.Locale

import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.connector.catalog.{CatalogPlugin, Identifier, Table}
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/** Commands of the v2 API, and those that Delta has of its own: matched by name, since most differ between versions. */
final class V2Commands(site: Site, tables: Tables, leaves: Leaves) {

  private val v2 = leaves.v2

  def of(plan: LogicalPlan): Option[Deed] = Reflect.simpleName(plan) match {
    case "AppendData" => insert(plan, None)
    case "OverwriteByExpression" | "OverwritePartitionsDynamic" => insert(plan, Some("OVERWRITE"))
    case "ReplaceData" | "WriteDelta" => rowLevel(plan)
    case "MergeIntoTable" | "MergeIntoCommand" | "DeltaMergeInto" => change("merge", plan, "targetTable", "target")
    case "UpdateTable" | "UpdateCommand" | "DeltaUpdateTable" => change("update", plan, "table", "target", "child")
    case "DeleteFromTable" | "DeleteCommand" | "DeltaDelete" | "DeleteFromTableWithFilters" =>
      change("delete", plan, "table", "target", "child")
    case "CreateTableAsSelect" => created(plan, "CREATE")
    case "ReplaceTableAsSelect" => created(plan, "OVERWRITE")
    case "CreateTable" => defined("create_table", plan, "CREATE")
    case "ReplaceTable" => defined("create_table", plan, "OVERWRITE")
    case "DropTable" | "DropView" => defined("drop", plan, "DROP")
    case "TruncateTable" => defined("truncate", plan, "TRUNCATE")
    case "RenameTable" => rename(plan)
    case "CreateDeltaTableCommand" => deltaTable(plan)
    case "WriteIntoDelta" => writeIntoDelta(plan)
    // What analysis had at hand is the table as it was before.
    case _ if isAlter(plan) =>
      named(plan).map { case (catalog, name) => Deed("alter", Seq(Output(v2.named(catalog, name), Some("ALTER")))) }
    case _ => None
  }

  private def insert(plan: LogicalPlan, state: Option[String]): Option[Deed] = for {
    table <- Reflect.member(plan, "table").collect { case table: LogicalPlan => table }
    query <- Commands.queryOf(plan)
  } yield {
    val names = table.output.map(_.name)
    val rows = Rows(query, if (names.size == query.output.size) names else query.output.map(_.name))
    written(leaves.of(V2Commands.relationIn(table)), rows, state)
  }

  private def written(read: Read, rows: Rows, state: Option[String]): Deed = {
    val outputs = read.withSchema(Commands.schemaOf(rows)).datasets.map(Output(_, state))
    val verb = if (outputs.exists(_.dataset.symlinks.nonEmpty)) "insert" else "write"
    Deed(verb, outputs, Some(rows).filter(_ => outputs.nonEmpty), lost = read.lost)
  }

  // The rewritten form of MERGE, UPDATE and DELETE; the operation still knows which it was.
  private def rowLevel(plan: LogicalPlan): Option[Deed] = {
    val verb = Reflect.text(plan, "table", "table", "operation", "command").map(_.toLowerCase(Locale.ROOT))
    target(plan, "originalTable", "table").map { relation =>
      Deed(verb.getOrElse("merge"), leaves.of(relation).datasets.map(Output(_)), change = Some(plan))
    }
  }

  private def target(plan: LogicalPlan, members: String*): Option[LogicalPlan] =
    Reflect.firstMember(plan, members: _*).collect { case table: LogicalPlan => V2Commands.relationIn(table) }

  private def change(verb: String, plan: LogicalPlan, members: String*): Option[Deed] =
    target(plan, members: _*).map { relation =>
      val found = leaves.of(relation).datasets
      val named = Reflect.walk(plan, "catalogTable").collect { case table: CatalogTable =>
        tables.of(table, found.flatMap(_.schema))
      }
      Deed(verb, named.map(Seq(_)).getOrElse(found).map(Output(_)), change = Some(plan))
    }

  private def created(plan: LogicalPlan, state: String): Option[Deed] = for {
    (catalog, name) <- named(plan)
    query <- Commands.queryOf(plan)
  } yield {
    val rows = Rows(query, query.output.map(_.name))
    val target = Read(Seq(v2.made(catalog, name))).withSchema(Commands.schemaOf(rows))
    val mayLeaveAlone = Reflect.member(plan, "ignoreIfExists").contains(true)
    val done = if (mayLeaveAlone) None else Some(state)
    Deed("create_table", target.datasets.map(Output(_, done)), Some(rows))
  }

  private def defined(verb: String, plan: LogicalPlan, state: String): Option[Deed] =
    resolved(plan).map { found =>
      val left = if (state == "DROP") found.copy(schema = Nil) else found
      Deed(verb, Seq(Output(left, Some(state))))
    }

  private def resolved(plan: LogicalPlan): Option[Dataset] = {
    val child = Reflect.firstMember(plan, "table", "child", "name").collect { case one: LogicalPlan => one }
    val table = child.flatMap(one => Reflect.member(one, "table")).collect { case table: Table => table }
    named(plan).flatMap { case (catalog, name) =>
      val known = table.flatMap(one => v2.of(one, Some(catalog), Some(name), Map.empty).datasets.headOption)
      known.orElse(Some(v2.named(catalog, name)))
    }
  }

  private def rename(plan: LogicalPlan): Option[Deed] = for {
    (catalog, from) <- named(plan)
    to <- Reflect.member(plan, "newName").collect { case names: Seq[_] => names.map(_.toString) }
  } yield {
    val path = if (to.headOption.contains(catalog.name)) to.tail else to
    val target = Identifier.of(if (path.size > 1) path.init.toArray else from.namespace, path.last)
    val before = v2.symlink(catalog, from)
    val previous = DatasetId(before.namespace, before.name)
    Deed("rename", Seq(Output(v2.named(catalog, target), Some("RENAME"), Some(previous))))
  }

  private def named(plan: LogicalPlan): Option[(CatalogPlugin, Identifier)] = for {
    at <- Reflect.firstMember(plan, "name", "table", "child")
    catalog <- Reflect.member(at, "catalog").collect { case one: CatalogPlugin => one }
    name <- Reflect.firstMember(at, "identifier", "ident").collect { case one: Identifier => one }
  } yield (catalog, name)

  private def deltaTable(plan: LogicalPlan): Option[Deed] = Commands.tableOf(plan).map { table =>
    val rows = Reflect.walk(plan, "query").collect { case query: LogicalPlan => Rows(query, query.output.map(_.name)) }
    val state = Reflect.text(plan, "mode") match {
      case Some("Overwrite") => Some("OVERWRITE")
      case Some("Ignore") => None
      case _ => Some("CREATE")
    }
    val schema = rows.map(Commands.schemaOf).getOrElse(Nil)
    Deed("create_table", Seq(Output(tables.of(table, schema), state)), rows)
  }

  private def writeIntoDelta(plan: LogicalPlan): Option[Deed] =
    Reflect.text(plan, "deltaLog", "dataPath").flatMap(path => site.location(path)).map { id =>
      val rows = Reflect.member(plan, "data").flatMap(data => Reflect.walk(data, "queryExecution", "analyzed"))
        .collect { case query: LogicalPlan => Rows(query, query.output.map(_.name)) }
      val state = Reflect.text(plan, "mode").filter(_ == "Overwrite").map(_ => "OVERWRITE")
      Deed("write", Seq(Output(Commands.files(id, Storage("delta", Some("parquet"))), state)), rows)
    }

  private def isAlter(plan: LogicalPlan): Boolean =
    Reflect.isA(plan, "org.apache.spark.sql.catalyst.plans.logical.AlterTableCommand")
}

object V2Commands {

  /** The relation below aliases, projections and filters that analysis puts on a command's target. */
  def relationIn(plan: LogicalPlan): LogicalPlan = plan match {
    case relation: DataSourceV2Relation => relation
    case relation: LogicalRelation => relation
    case other if other.children.size == 1 => relationIn(other.children.head)
    case other => other
  }
}
