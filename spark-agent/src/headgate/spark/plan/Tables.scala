package headgate.spark.plan

import java.net.URI
import java.util.Locale

import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTableType}

/** Tables and views of the session catalog: named by where they lie, with the catalog's name as a symlink. */
final class Tables(site: Site) {

  def of(table: CatalogTable): Dataset =
    if (table.tableType == CatalogTableType.VIEW) view(table.identifier).copy(schema = Schemas.of(table.schema))
    else located(table, locationOf(table))

  /** A table about to be made, or to be filled, at the place where the catalog will put it. */
  def of(table: CatalogTable, schema: Seq[SchemaField]): Dataset = {
    val found = of(table)
    if (found.schema.nonEmpty) found else found.copy(schema = schema)
  }

  /** What the catalog still knows of it; else it lay, or would lie, where the catalog puts tables. */
  def named(identifier: TableIdentifier): Dataset =
    site.tableOf(identifier).map(of).getOrElse {
      val found = unlocated(identifier, "TABLE")
      site.defaultPath(identifier).map(site.location).map { id =>
        found.copy(id = id, symlinks = Seq(symlink(identifier)))
      }.getOrElse(found)
    }

  def view(identifier: TableIdentifier): Dataset = unlocated(identifier, "VIEW")

  def symlink(identifier: TableIdentifier): Symlink = glue match {
    case Some(arn) => Symlink(arn, s"table/${databaseOf(identifier)}/${identifier.table}")
    case None => Symlink(namespace, s"${databaseOf(identifier)}.${identifier.table}")
  }

  def isTemporary(identifier: TableIdentifier): Boolean = site.isTemporary(identifier)

  private def locationOf(table: CatalogTable): Option[URI] =
    table.storage.locationUri.orElse {
      if (table.tableType == CatalogTableType.EXTERNAL) None else site.defaultPath(table.identifier)
    }

  private def located(table: CatalogTable, location: Option[URI]): Dataset = {
    val link = symlink(table.identifier)
    val id = Tables.physical(table).orElse(location.map(site.location)).getOrElse(DatasetId(link.namespace, link.name))
    Dataset(
      id,
      Schemas.of(table.schema),
      if (id == DatasetId(link.namespace, link.name)) Nil else Seq(link),
      Some("TABLE"),
      Some(catalog),
      location.map(uri => Locations.cleaned(uri.toString)),
      storage(table))
  }

  private def unlocated(identifier: TableIdentifier, kind: String): Dataset = {
    val link = symlink(identifier)
    Dataset(DatasetId(link.namespace, link.name), datasetType = Some(kind), catalog = Some(catalog))
  }

  private def storage(table: CatalogTable): Option[Storage] =
    table.provider.map(_.toLowerCase(Locale.ROOT)).map {
      case "hive" => Storage("hive", Formats.ofSerde(table.storage.serde))
      case provider => Formats.storage(provider)
    }

  private def databaseOf(identifier: TableIdentifier): String = identifier.database.getOrElse(site.currentDatabase)

  lazy val catalog: Catalog = Catalog(
    framework = if (site.isHive) "hive" else "spark",
    kind = if (glue.isDefined) "glue" else if (site.isHive) "hive" else "in-memory",
    name = "spark_catalog",
    metadataUri = site.metastore.map(uris => Locations.cleaned(uris.split(',').head.trim)),
    warehouseUri = site.warehouse.map(Locations.cleaned))

  private lazy val namespace: String = metastoreNamespace.orElse(warehouseNamespace).getOrElse("spark_catalog")

  private def metastoreNamespace: Option[String] =
    site.metastore.filter(_ => site.isHive).map { uris =>
      val first = Locations.cleaned(uris.split(',').head.trim)
      "hive://" + first.replaceFirst("^[a-z]+://", "").stripSuffix("/")
    }

  private def warehouseNamespace: Option[String] = site.warehouse.map(namespaceOf)

  /** The folder of a warehouse as the namespace of the tables in it. */
  def namespaceOf(warehouse: String): String =
    site.location(warehouse).map(Locations.uri).getOrElse(Locations.cleaned(warehouse))

  private lazy val glue: Option[String] = for {
    factory <- site.hadoop("hive.metastore.client.factory.class") if factory.contains("AWSGlue")
    account <- site.hadoop("hive.metastore.glue.catalogid").orElse(Option(System.getenv("AWS_ACCOUNT_ID")))
    region <- Option(System.getenv("AWS_REGION")).orElse(Option(System.getenv("AWS_DEFAULT_REGION")))
  } yield s"arn:aws:glue:$region:$account"
}

object Tables {

  /** A catalog table may stand for a table of another system, which has a name of its own there. */
  private def physical(table: CatalogTable): Option[DatasetId] =
    if (!table.provider.exists(_.equalsIgnoreCase("jdbc"))) None
    else Jdbc.of(table.storage.properties).headOption.map(_.id)
}
