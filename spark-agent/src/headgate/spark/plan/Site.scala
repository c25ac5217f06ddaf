package headgate.spark.plan

import java.net.URI

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.execution.QueryExecution

/** What the names of one action depend on besides its plan: the session's catalog and configuration, the settings. */
final class Site(query: QueryExecution, settings: ReadSettings) {

  private def session: SparkSession = query.sparkSession
  private def catalog = query.sparkSession.sessionState.catalog

  lazy val defaultFs: Option[URI] = hadoop("fs.defaultFS").flatMap(text => Reflect.guarded(new URI(text)))

  lazy val warehouse: Option[String] = conf("spark.sql.warehouse.dir")

  lazy val metastore: Option[String] = conf("spark.hadoop.hive.metastore.uris").orElse(hadoop("hive.metastore.uris"))

  lazy val isHive: Boolean = conf("spark.sql.catalogImplementation").contains("hive")

  /** Where RDDs and streams keep their checkpoints: read again by Spark, never an input of the user. */
  lazy val checkpoints: Seq[DatasetId] = {
    val rdds = Reflect.guarded(session.sparkContext.getCheckpointDir).flatten
    (rdds.toSeq ++ conf("spark.sql.streaming.checkpointLocation").toSeq).flatMap(path => location(path).toSeq)
  }

  def conf(key: String): Option[String] = Reflect.guarded(session.conf.getOption(key)).flatten.filter(_.nonEmpty)

  def hadoop(key: String): Option[String] =
    Reflect.guarded(session.sparkContext.hadoopConfiguration.get(key)).filter(_.nonEmpty)

  def location(path: String): Option[DatasetId] = Locations.of(path, defaultFs).map(published)

  def location(uri: URI): DatasetId = published(Locations.of(uri, defaultFs))

  def tableOf(identifier: TableIdentifier): Option[CatalogTable] =
    Reflect.guarded(catalog.getTableMetadata(identifier))

  def defaultPath(identifier: TableIdentifier): Option[URI] = Reflect.guarded(catalog.defaultTablePath(identifier))

  def currentDatabase: String = Reflect.guarded(catalog.getCurrentDatabase).getOrElse("default")

  def isTemporary(identifier: TableIdentifier): Boolean =
    Reflect.guarded(catalog.isTempView(identifier)).getOrElse(false)

  /** A path at or below a staging prefix goes by the name of the target it will be published to. */
  def targetOf(id: DatasetId): Option[DatasetId] =
    targets.collectFirst { case (staging, target) if Locations.isWithin(id, staging) => target }

  private def published(id: DatasetId): DatasetId = targetOf(id).getOrElse(id)

  private lazy val targets: Seq[(DatasetId, DatasetId)] = for {
    one <- settings.targets
    staging <- Locations.of(one.staging, defaultFs)
    target <- one.namespace.map(DatasetId(_, one.name)).orElse(Locations.of(one.name, defaultFs))
  } yield (staging, target)
}
