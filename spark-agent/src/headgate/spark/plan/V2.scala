package headgate.spark.plan

import java.util.Locale

import scala.collection.JavaConverters._

import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.connector.catalog.{CatalogPlugin, Identifier, Table, TableCatalog}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/** Tables of the v2 connector API: Delta, Iceberg, JDBC catalogs, files read the v2 way, and whatever else there is. */
final class V2(site: Site, tables: Tables, connectors: Connectors) {

  def of(relation: DataSourceV2Relation): Read = {
    val options = Connectors.asOptions(relation.options).getOrElse(Map.empty)
    // A connector may have to ask its system for the schema of a table; the plan has it already.
    located(V2.unwrapped(relation.table), relation.catalog, relation.identifier, options)
      .withSchema(Leaves.schemaOf(relation))
  }

  def of(table: Table, catalog: Option[CatalogPlugin], name: Option[Identifier], options: Map[String, String]): Read = {
    val inner = V2.unwrapped(table)
    located(inner, catalog, name, options).withSchema(Reflect.guarded(Schemas.of(inner.schema)).getOrElse(Nil))
  }

  private def located(
      inner: Table,
      catalog: Option[CatalogPlugin],
      name: Option[Identifier],
      options: Map[String, String]): Read =
    Reflect.simpleName(inner) match {
      case "V1Table" => v1(Reflect.member(inner, "v1Table"))
      case "DeltaTableV2" => Read(delta(inner, catalog, name))
      case "SparkTable" if inner.getClass.getName.contains("iceberg") => Read(iceberg(inner, catalog, name))
      case "JDBCTable" => Jdbc.read(jdbcOptions(inner))
      case _ if Reflect.isA(inner, "org.apache.spark.sql.execution.datasources.v2.FileTable") => Read(files(inner))
      case _ => connectors.of(inner, options).getOrElse(Read(other(inner, catalog, name, options)))
    }

  /** A table by its name alone: what the catalog knows of it now, else a name without a place. */
  def named(catalog: CatalogPlugin, name: Identifier): Dataset = {
    val loaded = catalog match {
      case tableCatalog: TableCatalog => Reflect.guarded(tableCatalog.loadTable(name))
      case _ => None
    }
    val found = loaded.flatMap(table => of(table, Some(catalog), Some(name), Map.empty).datasets.headOption)
    found.getOrElse(unlocated(catalog, name))
  }

  /** A table in the making: the session catalog says where it will lie before it is there. */
  def made(catalog: CatalogPlugin, name: Identifier): Dataset = {
    val known = named(catalog, name)
    if (known.sourceUri.isDefined || catalog.name != "spark_catalog") known
    else site.defaultPath(V2.identifier(name)).map(site.location).map { id =>
      linked(known.copy(id = id, sourceUri = Some(Locations.uri(id))), Some(catalog), Some(name))
    }.getOrElse(known)
  }

  def unlocated(catalog: CatalogPlugin, name: Identifier): Dataset = {
    val link = symlink(catalog, name)
    Dataset(DatasetId(link.namespace, link.name), datasetType = Some("TABLE"), catalog = Some(catalogOf(catalog)))
  }

  private def v1(table: Option[Any]): Read =
    Read(table.collect { case one: CatalogTable => tables.of(one) }.toSeq)

  private def delta(table: Table, catalog: Option[CatalogPlugin], name: Option[Identifier]): Seq[Dataset] = {
    val known = Reflect.walk(table, "catalogTable").collect { case one: CatalogTable => tables.of(one) }
    val path = Reflect.text(table, "path").orElse(Reflect.text(table, "deltaLog", "dataPath"))
    val found = known.orElse(path.flatMap(site.location).map(at(_, "delta"))).toSeq
    found.map(one => if (one.symlinks.isEmpty) linked(one, catalog, name) else one)
  }

  private def at(id: DatasetId, provider: String): Dataset =
    Commands.files(id, Formats.storage(provider)).copy(datasetType = Some("TABLE"))

  private def iceberg(table: Table, catalog: Option[CatalogPlugin], name: Option[Identifier]): Seq[Dataset] = {
    val inner = Reflect.member(table, "table")
    // A metadata table holds snapshots, files or history, not the user's rows.
    if (inner.exists(Reflect.isA(_, "org.apache.iceberg.BaseMetadataTable"))) Nil
    else {
      val format = Reflect.text(table, "properties").flatMap(V2.IcebergFormat.findFirstMatchIn(_)).map(_.group(1))
      val storage = Some(Storage("iceberg", format.orElse(Some("parquet"))))
      inner.flatMap(Reflect.text(_, "location")).flatMap(site.location).toSeq
        .map(id => linked(at(id, "iceberg").copy(storage = storage), catalog, name))
    }
  }

  private def files(table: Table): Seq[Dataset] = {
    val format = Reflect.text(table, "formatName").map(Formats.storage)
    Reflect.member(table, "paths").toSeq.collect { case paths: Seq[_] => paths }.flatten
      .flatMap(path => site.location(path.toString))
      .map(id => Dataset(id, datasetType = Some("FILE"), sourceUri = Some(Locations.uri(id)), storage = format))
  }

  private def jdbcOptions(table: Table): Map[String, String] = {
    val options = Connectors.optionsOf(table)
    val name = Reflect.member(table, "ident").collect { case ident: Identifier => V2.dotted(ident) }
    val others = options.filter { case (key, _) => key.toLowerCase(Locale.ROOT) != "query" }
    name.map(table => others + ("dbtable" -> table)).getOrElse(options)
  }

  private def other(
      table: Table,
      catalog: Option[CatalogPlugin],
      name: Option[Identifier],
      options: Map[String, String]): Seq[Dataset] = {
    val properties = Reflect.guarded(table.properties.asScala.toMap).getOrElse(Map.empty[String, String])
    val location = properties.get("location").orElse(options.get("path"))
    val provider = properties.getOrElse("provider", Reflect.simpleName(table))
    location.flatMap(site.location).map(id => linked(at(id, provider), catalog, name))
      .orElse(for { owner <- catalog; ident <- name } yield unlocated(owner, ident))
      .toSeq
  }

  private def linked(dataset: Dataset, catalog: Option[CatalogPlugin], name: Option[Identifier]): Dataset =
    (catalog, name) match {
      case (Some(owner), Some(ident)) =>
        dataset.copy(symlinks = Seq(symlink(owner, ident)), catalog = Some(catalogOf(owner)))
      case _ => dataset
    }

  def symlink(catalog: CatalogPlugin, name: Identifier): Symlink =
    if (catalog.name == "spark_catalog") tables.symlink(V2.identifier(name))
    else Symlink(namespace(catalog.name), V2.dotted(name))

  private def namespace(catalog: String): String = {
    def setting(key: String) = site.conf(s"spark.sql.catalog.$catalog.$key")
    val isHive = setting("type").contains("hive")
    if (isHive) setting("uri").orElse(site.metastore).map("hive://" + V2.authority(_)).getOrElse(catalog)
    else {
      val address = setting("uri").map(Jdbc.withoutCredentials)
      address.orElse(setting("warehouse").map(tables.namespaceOf)).getOrElse(catalog)
    }
  }

  private def catalogOf(catalog: CatalogPlugin): Catalog =
    if (catalog.name == "spark_catalog") tables.catalog
    else {
      def setting(key: String) = site.conf(s"spark.sql.catalog.${catalog.name}.$key")
      val implementation = setting("catalog-impl").getOrElse(catalog.getClass.getName)
      Catalog(
        framework = V2.frameworkOf(site.conf(s"spark.sql.catalog.${catalog.name}").getOrElse(catalog.getClass.getName)),
        kind = setting("type").getOrElse(implementation.substring(implementation.lastIndexOf('.') + 1)),
        name = catalog.name,
        metadataUri = setting("uri").map(Jdbc.withoutCredentials),
        warehouseUri = setting("warehouse").map(Locations.cleaned))
    }
}

object V2 {
  private val Frameworks = Seq("iceberg", "delta", "jdbc", "hive", "paimon", "hudi", "unity")
  private val IcebergFormat = "format=iceberg/(\\w+)".r

  /** Row-level operations and others put a table of their own around the user's. */
  def unwrapped(table: Table): Table = Reflect.simpleName(table) match {
    case "RowLevelOperationTable" =>
      Reflect.member(table, "table").collect { case inner: Table => unwrapped(inner) }.getOrElse(table)
    case _ => table
  }

  private def dotted(name: Identifier): String = (name.namespace.toSeq :+ name.name).mkString(".")

  private def identifier(name: Identifier) =
    org.apache.spark.sql.catalyst.TableIdentifier(name.name, name.namespace.lastOption)

  private def authority(uri: String): String =
    Locations.cleaned(uri.split(',').head.trim).replaceFirst("^\\w+://", "").stripSuffix("/")

  private def frameworkOf(className: String): String = {
    val name = className.toLowerCase(Locale.ROOT)
    Frameworks.find(framework => name.contains(framework)).getOrElse("spark")
  }
}
