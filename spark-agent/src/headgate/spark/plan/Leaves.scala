package headgate.spark.plan

import org.apache.spark.sql.catalyst.catalog.HiveTableRelation
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{ExternalRDD, LogicalRDD}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.sources.BaseRelation

/** What one leaf reads. `lost` says what is not known of it, `hasColumns` whether its columns are the datasets' own. */
final case class Read(datasets: Seq[Dataset] = Nil, lost: Option[String] = None, hasColumns: Boolean = true) {

  /** Gives a schema to those that have none; it is asked for once, and only if one of them needs it. */
  def withSchema(given: => Seq[SchemaField]): Read = {
    lazy val schema = given
    def completed(one: Dataset): Dataset = if (one.schema.isEmpty) one.copy(schema = schema) else one
    if (hasColumns) copy(datasets = datasets.map(completed)) else this
  }
}

/** Names the datasets behind the leaves of a plan; what it does not know reads nothing. */
final class Leaves(site: Site, tables: Tables, continues: Long => Boolean) {

  val connectors = new Connectors(site)
  val v2 = new V2(site, tables, connectors)
  private val streams = new Streams(v2)

  /** A leaf of a third party may throw: then it alone is lost. */
  def of(leaf: LogicalPlan): Read =
    try read(leaf)
    catch {
      case scala.util.control.NonFatal(_) => broken(leaf)
      case _: LinkageError => broken(leaf)
    }

  private def broken(leaf: LogicalPlan): Read =
    Read(lost = Some(s"a relation of ${Reflect.simpleName(leaf)} could not be read"))

  private def read(leaf: LogicalPlan): Read = leaf match {
    case relation: LogicalRelation => ofRelation(relation)
    case relation: HiveTableRelation => Read(Seq(tables.of(relation.tableMeta)))
    case relation: DataSourceV2Relation => v2.of(relation)
    case rdd: LogicalRDD => ofRdd(rdd)
    case _: ExternalRDD[_] => Read(lost = Some(Leaves.FromRdd))
    case other => streams.of(other)
  }

  // An attribute of another execution of this action: its own plan says where the rows come from.
  private def ofRdd(rdd: LogicalRDD): Read =
    if (rdd.output.exists(column => continues(column.exprId.id))) Read() else Read(lost = Some(Leaves.FromRdd))

  private def ofRelation(leaf: LogicalRelation): Read = leaf.catalogTable match {
    case Some(table) => Read(Seq(tables.of(table, Leaves.schemaOf(leaf))))
    case None => ofBase(leaf.relation, leaf.isStreaming).withSchema(Leaves.schemaOf(leaf))
  }

  private def ofBase(relation: BaseRelation, isStreaming: Boolean): Read = relation match {
    case files: HadoopFsRelation => ofFiles(files, isStreaming)
    case other => connectors.ofRelation(other)
  }

  private def ofFiles(files: HadoopFsRelation, isStreaming: Boolean): Read = {
    val storage = Formats.of(files.fileFormat)
    val roots = rootsOf(files, isStreaming)
    Read(roots.map(Commands.files(_, storage)), if (roots.size > 1) Some(Leaves.ManyPaths) else None)
  }

  // A stream reads single files below a folder, and names that folder in an option unless it was a pattern.
  private def rootsOf(files: HadoopFsRelation, isStreaming: Boolean): Seq[DatasetId] = {
    val paths = files.location.rootPaths
    files.options.get("basePath").flatMap(base => site.location(base)) match {
      case Some(base) if paths.nonEmpty => Seq(base)
      case _ if isStreaming && Reflect.simpleName(files.location) == "InMemoryFileIndex" =>
        paths.map(path => site.location(path.getParent.toUri)).distinct
      case _ =>
        val folders = paths.map(path => Locations.folderOf(site.location(path.toUri)))
        folders.distinct.filterNot(Locations.isInternal)
    }
  }
}

object Leaves {
  val FromRdd: String = "rows came from an RDD, behind which columns cannot be followed"
  val HiddenKey = "__metadata_col"
  val ManyPaths: String = "several paths were read at once: their columns are given to the first path"

  /** The columns of a leaf but for those, like `_metadata`, that Spark adds when a query asks for them. */
  def schemaOf(leaf: LogicalPlan): Seq[SchemaField] =
    Schemas.of(leaf.output.filterNot(_.metadata.contains(HiddenKey)))
}
