package headgate.spark.plan

import java.net.URI
import java.util.Locale

import org.apache.hadoop.fs.Path

/** Paths as OpenLineage names them, and which paths are no dataset of anybody. */
object Locations {

  def of(path: Path, defaultFs: => Option[URI] = None): DatasetId = of(path.toUri, defaultFs)

  def of(uri: URI, defaultFs: => Option[URI]): DatasetId = {
    val whole = if (uri.getScheme == null) defaultFs.map(qualified(uri, _)).getOrElse(uri) else uri
    val (authority, place) = withoutUserInfo(whole)
    val path = trimmed(place)
    scheme(whole) match {
      case "file" => DatasetId("file", path)
      case store if BucketStores(store) => DatasetId(s"$store://$authority", path.stripPrefix("/") match {
        case "" => "/"
        case key => key
      })
      case other if authority.isEmpty => DatasetId(other, path)
      case other => DatasetId(s"$other://$authority", path)
    }
  }

  def of(text: String, defaultFs: Option[URI]): Option[DatasetId] =
    if (text == null || text.trim.isEmpty) None else Reflect.guarded(of(new Path(text.trim), defaultFs))

  def uri(id: DatasetId): String = id.namespace match {
    case scheme if scheme.contains("://") => s"$scheme/${id.name.stripPrefix("/")}"
    case scheme => s"$scheme:${id.name}"
  }

  /** An address as it was given, but without a user and a password. */
  def cleaned(address: String): String = address match {
    case Address(scheme, rest) => s"$scheme://${rest.substring(userInfoEnd(scheme, rest))}"
    case other => other
  }

  /** How much of what follows `scheme://` is a user and a password. Azure has a container there, which is kept. */
  def userInfoEnd(scheme: String, rest: String): Int = {
    val authority = rest.takeWhile(c => "/?#".indexOf(c.toInt) < 0)
    val at = authority.lastIndexOf('@')
    val isContainer = Containers(scheme.toLowerCase(Locale.ROOT)) && authority.indexOf(':') < 0
    if (at >= 0) if (isContainer) 0 else at + 1
    else if (isCutPassword(scheme.toLowerCase(Locale.ROOT), authority)) rest.lastIndexOf('@') + 1
    else 0
  }

  // A password may hold a slash, so that only a part of it was taken for the authority.
  private def isCutPassword(scheme: String, authority: String): Boolean = {
    val colon = authority.indexOf(':')
    val isPort = !Portless(scheme) && authority.substring(colon + 1).forall(Character.isDigit)
    colon >= 0 && !authority.startsWith("[") && !isPort
  }

  /** Folders in which Spark, Hive and the table formats keep their own files. */
  def isInternal(id: DatasetId): Boolean = id.name.split('/').exists(part => Internal.exists(part.startsWith))

  /** The folder of a file that Spark has written; anything else is a dataset by itself. */
  def folderOf(id: DatasetId): DatasetId = {
    val cut = id.name.lastIndexOf('/')
    val isPart = cut > 0 && PartFile.matcher(id.name.substring(cut + 1)).matches
    if (isPart) id.copy(name = id.name.substring(0, cut)) else id
  }

  def isWithin(id: DatasetId, folder: DatasetId): Boolean =
    id.namespace == folder.namespace &&
      (id.name == folder.name || id.name.startsWith(folder.name.stripSuffix("/") + "/"))

  private val PartFile = java.util.regex.Pattern.compile("part-\\d{5}.*")
  private val Internal =
    Seq("_temporary", "_spark_metadata", ".spark-staging", ".hive-staging", "_delta_log", "_checkpoint", ".checkpoint")
  private val BucketStores = Set("s3", "gs", "wasbs", "oss", "cos", "cosn", "obs", "r2")
  private val Containers = Set("abfs", "abfss", "wasb", "wasbs")
  private val Portless = BucketStores ++ Containers ++ Set("s3a", "s3n", "gcs")
  private val Address = "(?s)\\s*([A-Za-z][\\w+.\\-]*)://(.*)".r
  private val Aliases = Map("s3a" -> "s3", "s3n" -> "s3", "gcs" -> "gs", "abfs" -> "abfss", "wasb" -> "wasbs")

  private def scheme(uri: URI): String = {
    val given = Option(uri.getScheme).getOrElse("file").toLowerCase(Locale.ROOT)
    Aliases.getOrElse(given, given)
  }

  private def withoutUserInfo(uri: URI): (String, String) = {
    val whole = Option(uri.getAuthority).getOrElse("") + Option(uri.getPath).getOrElse("")
    whole.substring(userInfoEnd(scheme(uri), whole)).span(_ != '/')
  }

  private def qualified(uri: URI, fs: URI): URI = new URI(fs.getScheme, fs.getAuthority, uri.getPath, null, null)

  private def trimmed(path: String): String = {
    val end = path.reverseIterator.takeWhile(_ == '/').size
    if (end == path.length) "/" else path.dropRight(end)
  }
}
