package headgate.spark.plan

import java.util.Locale

/** JDBC options as OpenLineage names; of a URL only the host, the port and the database leave this file. */
object Jdbc {

  /** Where a URL leads. `parts`: how many parts a table's full name has there; `schema`: the one if none is said. */
  final case class Place(namespace: String, database: Option[String], parts: Int, schema: Option[String] = None)

  def of(options: Map[String, String]): Seq[Dataset] = read(options).datasets

  def read(options: Map[String, String]): Read =
    place(option(options, "url").getOrElse("")).map(read(options, _))
      .getOrElse(Read(lost = Some("a JDBC URL is not understood")))

  def read(options: Map[String, String], at: Place): Read =
    option(options, "dbtable").orElse(option(options, "query")).map(_.trim) match {
      case Some(text) if QueryText.isQuery(text) => ofQuery(text, at)
      case Some(table) => Read(Seq(dataset(table, at)))
      case None => Read(lost = Some("a JDBC table has no name"))
    }

  /** Any URL without its user, password and settings. */
  def withoutCredentials(url: String): String = JdbcUrls.bare(url)

  private def ofQuery(text: String, at: Place): Read = {
    val tables = QueryText.tables(text).map(dataset(_, at)).distinct
    val isPlain = tables.size == 1 && QueryText.selectsColumnsAsTheyAre(text)
    val lost = "a query was sent to a database: its columns are not followed to its tables"
    if (isPlain) Read(tables) else Read(tables, Some(lost), hasColumns = false)
  }

  private def dataset(table: String, at: Place): Dataset =
    Dataset(
      DatasetId(at.namespace, fullName(QueryText.identifier(table), at)),
      datasetType = Some("TABLE"),
      sourceUri = Some(at.namespace + at.database.map("/" + _).getOrElse("")))

  private def fullName(given: Seq[String], at: Place): String = {
    val schema = if (at.parts == 3) at.schema.toSeq else Nil
    val whole =
      if (given.size >= at.parts) given
      else if (at.parts == 3 && given.size == 2) at.database.toSeq ++ given
      else at.database.toSeq ++ schema ++ given
    whole.mkString(".")
  }

  def place(url: String): Option[Place] = {
    val text = url.trim.stripPrefix("jdbc:")
    val scheme = text.takeWhile(c => c != ':').toLowerCase(Locale.ROOT)
    if (scheme.isEmpty || scheme.length == text.length) None
    else Reflect.guarded(JdbcUrls.place(scheme, text.substring(scheme.length + 1)))
  }

  private def option(options: Map[String, String], key: String): Option[String] =
    options
      .collectFirst { case (name, value) if name.equalsIgnoreCase(key) && value != null => value }
      .filter(_.trim.nonEmpty)
}
