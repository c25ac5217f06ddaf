package headgate.spark.plan

import java.util.Locale

/** Names of file formats, from the classes and providers that read and write them. */
object Formats {

  private val Known = Seq("parquet", "orc", "avro", "json", "csv", "text", "xml")

  def storage(provider: String): Storage = {
    val name = provider.toLowerCase(Locale.ROOT)
    if (name.contains("delta")) Storage("delta", Some("parquet"))
    else if (name.contains("iceberg")) Storage("iceberg", None)
    else Storage("file", known(name).orElse(Some(name.substring(name.lastIndexOf('.') + 1))))
  }

  /** A format object: ParquetFileFormat, DeltaParquetFileFormat, HiveFileFormat ... */
  def of(format: Any): Storage = {
    val name = Reflect.simpleName(format).toLowerCase(Locale.ROOT)
    if (name.contains("delta")) Storage("delta", Some("parquet"))
    else Storage("file", known(name).orElse(Some(name.replace("fileformat", ""))))
  }

  def ofSerde(serde: Option[String]): Option[String] = serde.map(_.toLowerCase(Locale.ROOT)).map { name =>
    known(name).getOrElse(if (name.contains("lazysimple")) "text" else name.substring(name.lastIndexOf('.') + 1))
  }

  private def known(name: String): Option[String] = Known.find(name.contains)
}
