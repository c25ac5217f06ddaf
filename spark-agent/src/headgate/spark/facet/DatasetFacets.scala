package headgate.spark.facet

import headgate.spark.plan._

/** A dataset as OpenLineage writes it. */
final class DatasetFacets(json: Json) {

  def input(dataset: Dataset, statistics: Option[Statistics]): Unit = json.obj {
    identified(dataset.id)
    json.key("facets").obj(described(dataset))
    statistics.foreach { figures =>
      json.key("inputFacets").obj(measured("inputStatistics", "InputStatisticsInputDatasetFacet", figures))
    }
  }

  /** Of what is staged only its columns' origins: rows, files and format are not yet, or never, those of the target. */
  def output(output: Output, columns: Option[ColumnLineage], statistics: Option[Statistics]): Unit = json.obj {
    identified(output.dataset.id)
    json.key("facets").obj {
      if (!output.isStaged) {
        described(output.dataset)
        output.lifecycle.foreach(lifecycle(_, output.previous))
      }
      columns.filter(c => c.fields.nonEmpty || c.dataset.nonEmpty).foreach(columnLineage)
    }
    statistics.filterNot(_ => output.isStaged).foreach { figures =>
      json.key("outputFacets").obj(measured("outputStatistics", "OutputStatisticsOutputDatasetFacet", figures))
    }
  }

  private def identified(id: DatasetId): Unit = {
    json.field("namespace", id.namespace)
    json.field("name", id.name)
  }

  private def described(dataset: Dataset): Unit = {
    if (dataset.schema.nonEmpty) facet("schema", "SchemaDatasetFacet")(fields(dataset.schema))
    facet("dataSource", "DatasourceDatasetFacet") {
      json.field("name", dataset.id.namespace)
      json.field("uri", dataset.sourceUri.getOrElse(dataset.id.namespace))
    }
    if (dataset.symlinks.nonEmpty) facet("symlinks", "SymlinksDatasetFacet")(symlinks(dataset.symlinks))
    dataset.datasetType.foreach { kind =>
      facet("datasetType", "DatasetTypeDatasetFacet")(json.field("datasetType", kind))
    }
    dataset.catalog.foreach(catalog)
    dataset.storage.foreach { storage =>
      facet("storage", "StorageDatasetFacet") {
        json.field("storageLayer", storage.layer)
        json.field("fileFormat", storage.format)
      }
    }
  }

  private def fields(schema: Seq[SchemaField]): Unit = json.each("fields", schema) { field =>
    json.obj {
      json.field("name", field.name)
      json.field("type", field.dataType)
      json.field("nullable", field.nullable)
      json.field("description", field.description)
      if (field.fields.nonEmpty) fields(field.fields)
    }
  }

  private def symlinks(links: Seq[Symlink]): Unit = json.each("identifiers", links) { link =>
    json.obj {
      json.field("namespace", link.namespace)
      json.field("name", link.name)
      json.field("type", "TABLE")
    }
  }

  private def catalog(catalog: Catalog): Unit = facet("catalog", "CatalogDatasetFacet") {
    json.field("framework", catalog.framework)
    json.field("type", catalog.kind)
    json.field("name", catalog.name)
    json.field("metadataUri", catalog.metadataUri)
    json.field("warehouseUri", catalog.warehouseUri)
    json.field("source", "spark")
  }

  private def lifecycle(state: String, previous: Option[DatasetId]): Unit =
    facet("lifecycleStateChange", "LifecycleStateChangeDatasetFacet") {
      json.field("lifecycleStateChange", state)
      previous.foreach(id => json.key("previousIdentifier").obj(identified(id)))
    }

  private def columnLineage(columns: ColumnLineage): Unit = facet("columnLineage", "ColumnLineageDatasetFacet") {
    json.key("fields").obj {
      columns.fields.foreach { case (name, sources) =>
        if (sources.nonEmpty) json.key(name).obj(json.each("inputFields", sources)(source))
      }
    }
    if (columns.dataset.nonEmpty) json.each("dataset", columns.dataset)(source)
  }

  private def source(entry: (Column, Set[Step])): Unit = json.obj {
    val (column, steps) = entry
    identified(column.dataset)
    json.field("field", column.name)
    json.each("transformations", steps) { step =>
      json.obj {
        json.field("type", if (step.kind.direct) "DIRECT" else "INDIRECT")
        json.field("subtype", step.kind.subtype)
        json.field("description", step.expression)
        json.field("masking", step.kind.masking)
      }
    }
  }

  private def measured(key: String, definition: String, figures: Statistics): Unit = facet(key, definition) {
    json.count("rowCount", figures.rows)
    json.count("size", figures.bytes)
    json.count("fileCount", figures.files)
  }

  private def facet(key: String, definition: String)(body: => Unit): Unit = Facets.write(json, key, definition)(body)
}
