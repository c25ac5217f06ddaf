package headgate.spark

import java.util.{Locale, Map => JavaMap, UUID}

/** What a user can set, with the warnings that reading it gave. */
final case class Config(
    url: Option[String],
    apiKey: Option[String],
    enabled: Boolean,
    namespace: String,
    application: Option[String],
    connectTimeoutMs: Int,
    readTimeoutMs: Int,
    flushTimeoutMs: Int,
    queueSize: Int,
    spoolDir: Option[String],
    maskLiterals: Boolean,
    parent: Option[Parent],
    rootParent: Option[Parent],
    warnings: Seq[String]) {
  def isActive: Boolean = enabled && (url.isDefined || spoolDir.isDefined)

  override def toString: String = s"Config(url=$url, namespace=$namespace, spoolDir=$spoolDir)"
}

/** The run that started this application, such as a task of a scheduler. */
final case class Parent(namespace: String, name: String, runId: String)

object Parent {

  /** `namespace/name/runId`; a namespace may be a URL without a path, and a name may have slashes. */
  def parse(text: String): Option[Parent] = {
    val authority = text.indexOf("://") match {
      case -1 => 0
      case at => at + 3
    }
    val first = text.indexOf('/', authority)
    val last = text.lastIndexOf('/')
    if (first < 0 || last <= first) None
    else of(text.substring(0, first), text.substring(first + 1, last), text.substring(last + 1))
  }

  def of(namespace: String, name: String, runId: String): Option[Parent] = {
    val parts = Seq(namespace, name, runId).map(_.trim)
    if (parts.exists(_.isEmpty) || !isUuid(parts(2))) None
    else Some(Parent(parts(0), parts(1), parts(2).toLowerCase(Locale.ROOT)))
  }

  // UUID.fromString alone also takes shortened groups.
  private def isUuid(text: String): Boolean =
    text.length == 36 && scala.util.Try(UUID.fromString(text)).isSuccess
}

object Config {

  /** The same from plain maps. */
  def of(conf: JavaMap[String, String], env: JavaMap[String, String]): Config =
    read((key: String) => Option(conf.get(key)), (key: String) => Option(env.get(key)))

  /** Read it from Spark's configuration and the environment; what is malformed is told in `warnings`. */
  def read(conf: String => Option[String], env: String => Option[String]): Config = {
    val settings = new Settings(conf, env)
    Config(
      url = settings.url("url", "spark.observability.api.url"),
      apiKey = settings.secret("apiKey", "spark.observability.api.key"),
      enabled = settings.flag("enabled", true, "spark.observability.api.enabled"),
      namespace = settings.text("namespace").getOrElse("default"),
      application = settings.text("application"),
      connectTimeoutMs = settings.millis("connectTimeoutMs", 5000, "spark.observability.api.connectTimeoutMs"),
      readTimeoutMs = settings.millis("readTimeoutMs", 10000, "spark.observability.api.readTimeoutMs"),
      flushTimeoutMs = settings.number("flushTimeoutMs", 30000, 0 to 600000),
      queueSize = settings.number("queueSize", 10000, 1 to 1000000),
      spoolDir = settings.folder("spoolDir"),
      maskLiterals = settings.flag("maskLiterals", false),
      parent = settings.parent("parent", "OPENLINEAGE_PARENT_ID", "parent"),
      rootParent = settings.parent("rootParent", "OPENLINEAGE_ROOT_PARENT_ID", "rootParent"),
      warnings = settings.warnings)
  }
}
