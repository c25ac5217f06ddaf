package headgate.spark.plan

/** What a query read, wrote and computed, without a Spark type in it: all that facets are made from. */
final case class DatasetId(namespace: String, name: String)

final case class Symlink(namespace: String, name: String)

final case class SchemaField(
    name: String,
    dataType: String,
    nullable: Boolean,
    description: Option[String] = None,
    fields: Seq[SchemaField] = Nil)

final case class Catalog(
    framework: String,
    kind: String,
    name: String,
    metadataUri: Option[String] = None,
    warehouseUri: Option[String] = None)

final case class Storage(layer: String, format: Option[String])

final case class Dataset(
    id: DatasetId,
    schema: Seq[SchemaField] = Nil,
    symlinks: Seq[Symlink] = Nil,
    datasetType: Option[String] = None,
    catalog: Option[Catalog] = None,
    sourceUri: Option[String] = None,
    storage: Option[Storage] = None)

/** `lifecycle` is one of OpenLineage's: CREATE, OVERWRITE, ALTER, DROP, RENAME, TRUNCATE. What is staged goes by the
  * name of its target, which does not have it yet.
  */
final case class Output(
    dataset: Dataset,
    lifecycle: Option[String] = None,
    previous: Option[DatasetId] = None,
    isStaged: Boolean = false)

/** How a source column reaches a target: DIRECT (identity, transformation, aggregation) or INDIRECT (join, ...). */
final case class Kind(direct: Boolean, subtype: String, masking: Boolean = false)

object Kind {
  val Identity: Kind = Kind(direct = true, "IDENTITY")
  val Transformation: Kind = Kind(direct = true, "TRANSFORMATION")
  val Aggregation: Kind = Kind(direct = true, "AGGREGATION")
  val Join: Kind = Kind(direct = false, "JOIN")
  val Filter: Kind = Kind(direct = false, "FILTER")
  val GroupBy: Kind = Kind(direct = false, "GROUP_BY")
  val Sort: Kind = Kind(direct = false, "SORT")
  val Window: Kind = Kind(direct = false, "WINDOW")
  val Conditional: Kind = Kind(direct = false, "CONDITIONAL")
}

final case class Column(dataset: DatasetId, name: String)

final case class Step(kind: Kind, expression: Option[String] = None)

/** `fields`: what each target column is made from. `dataset`: what decides which rows there are, for all columns. */
final case class ColumnLineage(fields: Seq[(String, Map[Column, Set[Step]])], dataset: Map[Column, Set[Step]]) {

  def without(isLeftOut: String => Boolean): ColumnLineage = {
    def kept(sources: Map[Column, Set[Step]]) = sources.filterNot { case (column, _) => isLeftOut(column.name) }
    ColumnLineage(fields.collect { case (name, sources) if !isLeftOut(name) => (name, kept(sources)) }, kept(dataset))
  }
}

final case class Statistics(rows: Option[Long] = None, bytes: Option[Long] = None, files: Option[Long] = None)

/** One user action: all its executions put together. `lost` says in words where lineage could not be followed. */
final case class ActionFacts(
    command: String,
    sql: Option[String] = None,
    inputs: Seq[Dataset] = Nil,
    outputs: Seq[Output] = Nil,
    columns: Map[DatasetId, ColumnLineage] = Map.empty,
    inputStatistics: Map[DatasetId, Statistics] = Map.empty,
    outputStatistics: Map[DatasetId, Statistics] = Map.empty,
    lost: Seq[String] = Nil,
    isStreaming: Boolean = false) {

  /** The same before, or without, a good end: what a command was to do to a dataset has not been done. */
  def undecided: ActionFacts =
    copy(outputs = outputs.map(_.copy(lifecycle = None, previous = None)), outputStatistics = Map.empty)

  /** While it goes on: a table that is being made has no place yet, and would be told under another name. */
  def begun: ActionFacts = {
    val placed = undecided.outputs.filter { output =>
      val dataset = output.dataset
      dataset.sourceUri.isDefined || dataset.symlinks.nonEmpty || !dataset.datasetType.contains("TABLE")
    }
    undecided.copy(outputs = placed)
  }
}
