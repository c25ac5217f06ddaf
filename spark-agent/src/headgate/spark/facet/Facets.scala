package headgate.spark.facet

/** Where facets are defined, and the fields that each of them begins with. */
object Facets {
  val Producer: String = s"https://github.com/headgate/headgate/tree/${Version.agent}/spark-agent"
  val RunEvent = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"

  private val Versions = Map(
    "CatalogDatasetFacet" -> "1-1-0",
    "ColumnLineageDatasetFacet" -> "1-2-0",
    "DatasetTypeDatasetFacet" -> "1-0-1",
    "DatasourceDatasetFacet" -> "1-0-1",
    "ErrorMessageRunFacet" -> "1-0-1",
    "InputStatisticsInputDatasetFacet" -> "1-0-0",
    "JobTypeJobFacet" -> "2-0-4",
    "LifecycleStateChangeDatasetFacet" -> "1-0-1",
    "OutputStatisticsOutputDatasetFacet" -> "1-0-2",
    "ParentRunFacet" -> "1-2-0",
    "ProcessingEngineRunFacet" -> "1-1-1",
    "SchemaDatasetFacet" -> "1-2-0",
    "SQLJobFacet" -> "1-1-0",
    "StorageDatasetFacet" -> "1-0-1",
    "SymlinksDatasetFacet" -> "1-0-1")

  private val Urls = Versions.map { case (name, version) =>
    name -> s"https://openlineage.io/spec/facets/$version/$name.json#/$$defs/$name"
  }

  def write(json: Json, key: String, definition: String)(body: => Unit): Unit = json.key(key).obj {
    json.field("_producer", Producer)
    json.field("_schemaURL", Urls.getOrElse(definition, own(definition)))
    body
  }

  private def own(definition: String) =
    s"https://headgate.dev/spec/facets/1-0-0/$definition.json#/$$defs/$definition"
}
