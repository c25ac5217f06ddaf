package headgate.spark.plan

import java.util.Locale

import scala.collection.JavaConverters._

/** Systems reached through a connector, known by its class name and its options. */
final class Connectors(site: Site) {

  /** What a v1 relation, provider or v2 table reads or writes; None when its class is of no known connector. */
  def of(connector: Any, given: Map[String, String]): Option[Read] = {
    val name = connector.getClass.getName
    val options = Connectors.lowered(given)
    if (name.contains(".jdbc.")) Some(Jdbc.read(options))
    else if (name.contains(".kafka010.")) Some(Kafka.read(options))
    else if (name.contains(".snowflake.")) Some(snowflake(options))
    else if (name.contains(".bigquery.")) Some(bigQuery(connector, options))
    else if (name.contains(".redshift.")) Some(Jdbc.read(options))
    else if (Connectors.Nowhere.exists(name.contains)) Some(Read())
    else None
  }

  def ofRelation(relation: Any): Read =
    of(relation, Connectors.optionsOf(relation)).getOrElse {
      Read(lost = Some(s"it is not known what a relation of ${Reflect.simpleName(relation)} reads"))
    }

  private def snowflake(options: Map[String, String]): Read = {
    val account = JdbcUrls.snowflakeAccount(options.getOrElse("sfurl", options.getOrElse("sfaccount", "")))
    val schema = options.getOrElse("sfschema", "PUBLIC")
    val place = Jdbc.Place(s"snowflake://$account", options.get("sfdatabase"), 3, Some(schema))
    Jdbc.read(options, place)
  }

  private def bigQuery(connector: Any, options: Map[String, String]): Read = {
    val table = options.get("table").orElse(options.get("path")).orElse(BigQuery.tableOf(connector))
    table.map(name => BigQuery.read(name, options, site)).getOrElse(Read(lost = Some("a BigQuery table has no name")))
  }
}

object Connectors {

  // Sinks and sources that hold nothing after the query.
  private val Nowhere = Seq(".noop.", "NoopTable", "ConsoleTable", "ConsoleSink", "MemorySink", "ForeachWriterTable",
    "ForeachBatchSink", "RateStream", "RatePerMicroBatch", "TextSocket", "MemoryStream")

  private val OptionPaths = Seq(
    Seq("jdbcOptions", "parameters"),
    Seq("params", "parameters"),
    Seq("sourceOptions"),
    Seq("parameters"),
    Seq("options"))

  def lowered(options: Map[String, String]): Map[String, String] =
    options.iterator.map { case (key, value) => key.toLowerCase(Locale.ROOT) -> value }.toMap

  /** The options that a relation was made with, wherever its class keeps them. */
  def optionsOf(relation: Any): Map[String, String] =
    OptionPaths.iterator
      .flatMap(path => Reflect.walk(relation, path: _*).flatMap(asOptions).iterator)
      .find(_.nonEmpty)
      .getOrElse(Map.empty)

  def asOptions(value: Any): Option[Map[String, String]] = value match {
    case map: scala.collection.Map[_, _] => Some(texts(map.iterator))
    case map: java.util.Map[_, _] => Some(texts(map.asScala.iterator))
    case _ => None
  }

  private def texts(pairs: Iterator[(Any, Any)]): Map[String, String] =
    pairs.collect { case (key: String, value: String) => key -> value }.toMap
}

/** Topics by the options of Spark's Kafka source and sink. */
object Kafka {

  private val ManyTopics = "several topics were read at once: their columns are given to the first topic"
  private val Assigned = """"((?:[^"\\]|\\.)+)"\s*:\s*\[""".r

  def read(options: Map[String, String]): Read = {
    val topics = topicsOf(options)
    if (topics.isEmpty) Read(lost = Some("rows were sent to the Kafka topics that they name themselves"))
    else Read(
      topics.map(topic => Dataset(DatasetId(namespace(options), topic), datasetType = Some("TOPIC"))),
      if (topics.size > 1) Some(ManyTopics) else None)
  }

  private def topicsOf(options: Map[String, String]): Seq[String] =
    options.get("topic").map(Seq(_))
      .orElse(options.get("subscribe").map(_.split(',').map(_.trim).filter(_.nonEmpty).toSeq))
      .orElse(options.get("assign").map(json => Assigned.findAllMatchIn(json).map(_.group(1)).toSeq))
      .orElse(options.get("subscribepattern").map(Seq(_)))
      .getOrElse(Nil)

  // Any broker may stand first in the list; the smallest is the same for every order.
  private def namespace(options: Map[String, String]): String = {
    val brokers = options.getOrElse("kafka.bootstrap.servers", "").split(',').map(_.trim).filter(_.nonEmpty)
    "kafka://" + brokers.map(_.replaceFirst("^\\w+://", "")).sorted.headOption.getOrElse("unknown")
  }
}

/** BigQuery's tables: `project.dataset.table`, whose first two parts may be options or settings. */
object BigQuery {

  private val QuerySent = "a query was sent to BigQuery: it is not followed to its tables"

  def read(table: String, options: Map[String, String], site: Site): Read =
    if (QueryText.isQuery(table.trim)) Read(lost = Some(QuerySent), hasColumns = false)
    else Read(Seq(Dataset(DatasetId("bigquery", fullName(table, options, site)), datasetType = Some("TABLE"))))

  def tableOf(connector: Any): Option[String] =
    Reflect.text(connector, "getTableName").orElse(Reflect.text(connector, "tableName"))

  private def fullName(table: String, options: Map[String, String], site: Site): String = {
    val parts = table.trim.stripPrefix("`").stripSuffix("`").replace(':', '.').split('.').toSeq
    val project = options.get("project").orElse(options.get("parentproject")).orElse(site.conf("parentProject"))
    val dataset = options.get("dataset")
    (parts.size match {
      case 1 => project.toSeq ++ dataset ++ parts
      case 2 => project.toSeq ++ parts
      case _ => parts
    }).mkString(".")
  }
}
