package headgate.spark.plan

import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.ViewType
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.command._

/** Commands that make, change or drop tables and views of the session catalog. */
final class Definitions(site: Site, tables: Tables) {

  def of(plan: LogicalPlan): Option[Deed] = plan match {
    case c: CreateViewCommand => Some(createView(c))
    case c: AlterViewAsCommand => Some(view("alter", c.name, "ALTER", c.query, Nil))
    case c: CreateTableCommand => Some(Deed("create_table", Seq(Output(tables.of(c.table), Some("CREATE")))))
    case c: CreateDataSourceTableCommand => Some(Deed("create_table", Seq(Output(tables.of(c.table), Some("CREATE")))))
    case c: CreateTableLikeCommand => Some(changed("create_table", c.targetTable, "CREATE"))
    case c: DropTableCommand => Some(drop(c.tableName, c.isView))
    case c: AlterTableRenameCommand => Some(rename(c.oldName, c.newName, c.isView))
    case c: TruncateTableCommand => Some(changed("truncate", c.tableName, "TRUNCATE"))
    case c: LoadDataCommand => Some(load(c))
    case other => alter(other)
  }

  private def createView(command: CreateViewCommand): Deed =
    if (command.viewType.toString != "PersistedView") Deed("create_temp_view", readsNothing = true)
    else {
      val state = if (command.replace) "OVERWRITE" else "CREATE"
      view("create_view", command.name, state, command.plan, command.userSpecifiedColumns.map(_._1))
    }

  private def view(verb: String, name: TableIdentifier, state: String, query: LogicalPlan, columns: Seq[String]): Deed =
    if (tables.isTemporary(name)) Deed("create_temp_view", readsNothing = true)
    else {
      val rows = Rows(query, if (columns.isEmpty) query.output.map(_.name) else columns)
      Deed(verb, Seq(Output(tables.view(name).copy(schema = Commands.schemaOf(rows)), Some(state))), Some(rows))
    }

  private def drop(name: TableIdentifier, isView: Boolean): Deed = {
    val dropped = if (isView) tables.view(name) else tables.named(name)
    Deed("drop", Seq(Output(dropped.copy(schema = Nil), Some("DROP"))))
  }

  // A managed table moves with its name; by now the catalog knows the new one only.
  private def rename(from: TableIdentifier, to: TableIdentifier, isView: Boolean): Deed = {
    val target = TableIdentifier(to.table, to.database.orElse(from.database))
    val renamed = if (isView) tables.view(target) else tables.named(target)
    val before = tables.symlink(from)
    Deed("rename", Seq(Output(renamed, Some("RENAME"), Some(DatasetId(before.namespace, before.name)))))
  }

  private def load(command: LoadDataCommand): Deed = {
    val path = if (command.isLocal && !command.path.contains(":")) s"file:${command.path}" else command.path
    val source = site.location(path).map { id =>
      Dataset(id, datasetType = Some("FILE"), sourceUri = Some(Locations.uri(id)))
    }
    val state = if (command.isOverwrite) Some("OVERWRITE") else None
    Deed("load", Seq(Output(tables.named(command.table), state)), inputs = source.toSeq)
  }

  private def changed(verb: String, name: TableIdentifier, state: String): Deed =
    Deed(verb, Seq(Output(tables.named(name), Some(state))))

  private def alter(plan: LogicalPlan): Option[Deed] =
    if (!Reflect.simpleName(plan).startsWith("AlterTable")) None
    else Commands.identifierOf(plan, "tableName", "table", "name").map(changed("alter", _, "ALTER"))
}
