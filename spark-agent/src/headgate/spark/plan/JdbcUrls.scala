package headgate.spark.plan

import java.util.Locale
import java.util.regex.Pattern

import headgate.spark.plan.Jdbc.Place

/** The URL dialects of JDBC drivers. User names and passwords are cut off before anything else is looked at. */
private[plan] object JdbcUrls {

  private final case class Url(hosts: String, path: String, settings: Map[String, String]) {
    def host(port: String): String = withPort(hosts.split(',').head, port)
    def setting(names: String*): Option[String] = names.flatMap(settings.get).headOption
    def segment(at: Int): Option[String] = path.split('/').filter(_.nonEmpty).lift(at)
  }

  /** `rest` is what follows `jdbc:<scheme>:`. */
  def place(scheme: String, rest: String): Place = {
    val found = placeOf(scheme, rest)
    // Whatever does not look like a host or a name may be, or hold, a part of a password.
    require(UnhostedSchemes(scheme) || Seq(Host, UnhostedName).exists(_.matcher(found.namespace).matches))
    require((found.database ++ found.schema).forall(Name.matcher(_).matches))
    found
  }

  private def placeOf(scheme: String, rest: String): Place = scheme match {
    case "oracle" => oracle(cut(s"jdbc:$scheme:$rest"))
    case "sqlite" | "duckdb" => Place(s"$scheme://${rest.takeWhile(c => c != '?' && c != ';')}", None, 1)
    case "cloudspanner" => spanner(rest)
    case _ =>
      val url = cut(s"jdbc:$scheme:$rest")
      byUrl(scheme, parsed(url), url.target)
  }

  private def byUrl(scheme: String, url: Url, target: String): Place = scheme match {
    case "postgresql" | "postgres" => postgres("postgres", url, "5432")
    case "crate" => postgres("crate", url, "5432", "doc")
    case "redshift" => postgres("redshift", url.copy(hosts = redshiftCluster(url.hosts)), "5439")
    case "mysql" | "mariadb" | "mysql+srv" => two("mysql", url, "3306")
    case "oceanbase" => two("oceanbase", url, "2881")
    case "clickhouse" | "ch" => two("clickhouse", url, "8123")
    case "hive2" => two("hive", url, "10000")
    case "sqlserver" | "microsoft:sqlserver" => sqlServer(url)
    case "db2" => Place(s"db2://${url.host("50000")}", url.segment(0), 3)
    case "teradata" =>
      Place(s"teradata://${withPort(url.hosts, url.setting("dbs_port").getOrElse("1025"))}", url.setting("database"), 2)
    case "snowflake" => snowflake(url)
    case "trino" | "presto" => Place(s"$scheme://${url.host("8080")}", url.segment(0), 3, url.segment(1))
    case "awsathena" | "athena" => athena(url)
    case _ if url.hosts.nonEmpty => Place(s"$scheme://${url.hosts.split(',').head}", url.segment(0), 2)
    case _ => Place(s"$scheme:$target", None, 1)
  }

  private def postgres(scheme: String, url: Url, port: String, schema: String = "public"): Place = {
    val own = url.setting("currentschema").map(_.split(',').head.trim).filter(_.nonEmpty)
    Place(s"$scheme://${url.host(port)}", url.segment(0), 3, own.orElse(Some(schema)))
  }

  private def two(scheme: String, url: Url, port: String): Place =
    Place(s"$scheme://${url.host(port)}", url.segment(0), 2)

  private def sqlServer(url: Url): Place = {
    val host = withPort(url.hosts.split(',').head, url.setting("portnumber", "port").getOrElse("1433"))
    val database = url.setting("databasename", "database")
    val schema = Some("dbo")
    if (host.contains(".sql.azuresynapse.net")) Place(s"sqlserver://$host", None, 2, schema)
    else if (host.contains(".datawarehouse.fabric.microsoft.com"))
      Place(s"fabric-warehouse://$host", database, 3, schema)
    else Place(s"mssql://$host", database, 3, schema)
  }

  private def snowflake(url: Url): Place = {
    val schema = url.setting("schema").getOrElse("PUBLIC")
    Place(s"snowflake://${snowflakeAccount(url.hosts)}", url.setting("db"), 3, Some(schema))
  }

  def snowflakeAccount(host: String): String =
    host.replaceFirst("^https?://", "").takeWhile(c => c != '/' && c != ':').stripSuffix(".snowflakecomputing.com")

  // cluster.hash.region.redshift.amazonaws.com:port is known as cluster.region:port
  private def redshiftCluster(hosts: String): String = {
    val Named = """([^.:]+)\.[^.:]+\.([^.:]+)\.redshift(?:-serverless)?\.amazonaws\.com(:\d+)?""".r
    hosts.split(',').head match {
      case Named(cluster, region, port) => s"$cluster.$region${Option(port).getOrElse("")}"
      case other => other
    }
  }

  private def athena(url: Url): Place = {
    val region = url.setting("region", "awsregion").map(name => s"athena.$name.amazonaws.com")
    val host = region.getOrElse(url.hosts.takeWhile(_ != ':'))
    val catalog = url.setting("catalog").orElse(Some("AwsDataCatalog"))
    Place(s"awsathena://$host", catalog, 3, url.setting("schema", "database"))
  }

  private def spanner(rest: String): Place = {
    val Named = """.*projects/([^/]+)/instances/([^/]+)/databases/([^/?;]+).*""".r
    rest match {
      case Named(project, instance, database) => Place(s"spanner://$project:$instance", Some(database), 2)
      case _ => Place("spanner", None, 1)
    }
  }

  // thin:user/password@//host:1521/service, @host:1521:sid, or a whole description in brackets
  private def oracle(url: Cut): Place = {
    val target = url.target
    require(url.hasTarget)
    if (target.startsWith("(")) {
      val host = bracketed(target, "HOST").getOrElse("localhost")
      val service = bracketed(target, "SERVICE_NAME").orElse(bracketed(target, "SID"))
      Place(s"oracle://$host:${bracketed(target, "PORT").getOrElse("1521")}", service, 3)
    } else {
      val plain = target.replaceFirst("^(tcps?:)?//", "").takeWhile(_ != '?')
      val Sid = """([^:/]+):(\d+):(.+)""".r
      plain match {
        case Sid(host, port, sid) => Place(s"oracle://$host:$port", Some(sid), 3)
        case _ => Place(s"oracle://${withPort(plain.takeWhile(_ != '/'), "1521")}", serviceOf(plain), 3)
      }
    }
  }

  private def serviceOf(plain: String): Option[String] =
    Some(plain.dropWhile(_ != '/').stripPrefix("/").takeWhile(_ != ':')).filter(_.nonEmpty)

  private def bracketed(text: String, key: String): Option[String] =
    s"(?i)\\(\\s*$key\\s*=\\s*([^)\\s]+)\\s*\\)".r.findFirstMatchIn(text).map(_.group(1))

  private def parsed(url: Cut): Url = {
    val place = if (url.head.endsWith("//")) url.target else "/" + url.target
    // DB2 and Teradata put their settings behind the database.
    val (path, more) = place.dropWhile(_ != '/').stripPrefix("/").span(c => c != ':' && c != ',')
    val (database, inline) = if (path.contains("=")) ("", path + more) else (path, more)
    val hosts = place.takeWhile(_ != '/')
    val first = if (hosts.contains("=")) hosts else ""
    Url(hosts, database, settings(Seq(url.settings, inline, first).mkString(";")))
  }

  private def settings(text: String): Map[String, String] =
    text.split("[?;&,:]").map(_.split("=", 2)).collect {
      case Array(key, value) => key.trim.toLowerCase(Locale.ROOT) -> value.trim
    }.toMap

  private def withPort(host: String, port: String): String = {
    val given = if (host.isEmpty) "localhost" else host
    if (given.matches(""".*:\d+$""")) given else s"$given:$port"
  }

  /** A URL in its parts: `jdbc:x://`, the user and password, where it leads, and what is set. */
  private final case class Cut(head: String, userInfo: String, hasTarget: Boolean, target: String, settings: String) {
    private def isOracle: Boolean = head.toLowerCase(Locale.ROOT).startsWith("jdbc:oracle")

    def mark: String = if (hasTarget && (userInfo.nonEmpty || isOracle)) "@" else ""
  }

  def bare(url: String): String = {
    val parts = cut(url.trim)
    val oracle = if (parts.head.toLowerCase(Locale.ROOT).startsWith("jdbc:oracle")) parts.mark else ""
    parts.head + oracle + withoutInline(parts.target).getOrElse(parts.target)
  }

  /** The URL as it is if it holds no secret, else with every secret hidden. */
  def redacted(url: String): String = {
    val parts = cut(url)
    val user = if (parts.userInfo.isEmpty) "" else Redaction.Mask
    val settings = if (Redaction.isSecret(parts.settings)) parts.settings.take(1) + Redaction.Mask else parts.settings
    val target = withoutInline(parts.target).map(_ + Redaction.Mask).getOrElse(parts.target)
    parts.head + user + parts.mark + target + settings
  }

  private def cut(url: String): Cut = {
    val head = Head.findPrefixOf(url).getOrElse("")
    val body = url.substring(head.length)
    val (place, settings) = body.splitAt(settingsStart(body))
    val isOracle = head.toLowerCase(Locale.ROOT).startsWith("jdbc:oracle")
    if (!head.toLowerCase(Locale.ROOT).startsWith("jdbc:")) {
      val end = Locations.userInfoEnd(head.stripSuffix("://"), place)
      Cut(head, place.take(end).stripSuffix("@"), hasTarget = true, place.drop(end), settings)
    } else {
      val within = if (isOracle) place.length else Inline.findFirstMatchIn(place).map(_.start).getOrElse(place.length)
      val at = place.lastIndexOf('@', within)
      if (at < 0 && isOracle) Cut(head, place, hasTarget = false, "", settings)
      else Cut(head, place.take(math.max(at, 0)), hasTarget = true, place.substring(at + 1), settings)
    }
  }

  /** A password may hold a question mark: then it is no setting that follows, and the host comes later. */
  private def settingsStart(body: String): Int = {
    def next(from: Int) = Some(body.indexWhere(c => c == '?' || c == ';', from)).filter(_ >= 0).getOrElse(body.length)
    val (first, at) = (next(0), body.lastIndexOf('@'))
    if (at > first && FirstSetting.findPrefixOf(body.substring(first)).isEmpty) next(at) else first
  }

  // Some drivers take settings in brackets or behind the database.
  private def withoutInline(target: String): Option[String] =
    if (!target.contains("=") || !Redaction.isSecret(target)) None
    else SomeSetting.findFirstMatchIn(target).map(found => target.take(found.start))

  private val Head = "(?i)\\s*(?:jdbc:oracle:\\w+:|jdbc:[^/@?;]*?//|jdbc:[\\w+.\\-]+:|[\\w+.\\-]+://)".r
  private val Inline = "/(?:[^/@:,]*[:,])?[\\w.]+=".r
  private val FirstSetting = "[?;]+\\s*[\\w.\\-]+\\s*=".r
  private val SomeSetting = "[(:,/]?\\s*[\\w.]+\\s*=".r
  private val UnhostedSchemes = Set("sqlite", "duckdb", "cloudspanner")
  private val Host = Pattern.compile("[\\w+.\\-]+://(?:\\[[\\w:.%]+\\]|[\\w.\\-]+)(?:\\\\[\\w$]+)?(?::\\d+)?")
  private val UnhostedName = Pattern.compile("[\\w+.\\-]+:(?!//)[\\w.\\-:/~\\\\ ]*")
  private val Name = Pattern.compile("[^()=@;?]*")
}
