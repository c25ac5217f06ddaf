package headgate.spark

import java.net.URL
import java.util.Locale
import scala.collection.mutable.ArrayBuffer
import scala.util.Try

/** Looks single settings up and checks them: our key, then our environment variable, then the alias. */
private[spark] final class Settings(conf: String => Option[String], env: String => Option[String]) {
  private val found = ArrayBuffer.empty[String]

  def warnings: Seq[String] = found.toList

  def text(name: String, alias: String = ""): Option[String] = lookUp(name, alias).map(_.value)

  def flag(name: String, default: Boolean, alias: String = ""): Boolean =
    lookUp(name, alias)
      .flatMap(checked(_, s"is not true or false; $default is used")(Settings.asFlag))
      .getOrElse(default)

  def millis(name: String, default: Int, alias: String): Int = number(name, default, 1 to 600000, alias)

  def number(name: String, default: Int, range: Range, alias: String = ""): Int =
    lookUp(name, alias)
      .flatMap(checked(_, s"is not a whole number from ${range.head} to ${range.last}; $default is used") { value =>
        Try(value.toInt).toOption.filter(n => n >= range.head && n <= range.last)
      })
      .getOrElse(default)

  /** The server's base address, also when what was given names the API below it. */
  def url(name: String, alias: String): Option[String] = {
    val wanted = "is not an http or https URL without credentials and query; nothing is sent"
    lookUp(name, alias).flatMap(checked(_, wanted)(Settings.asBase))
  }

  /** A key as it may stand in a header; it is never shown. */
  def secret(name: String, alias: String): Option[String] =
    lookUp(name, alias).map(_.value).filter { value =>
      val isClean = value.forall(c => c > ' ' && c < 127)
      if (!isClean) found += s"spark.headgate.$name has blanks or signs that no key has; events are sent without a key"
      isClean
    }

  def folder(name: String): Option[String] =
    lookUp(name, "")
      .flatMap(checked(_, "is not a folder of this machine; nothing is written there")(Settings.asFolder))

  /** Our own form, then the properties that a scheduler injects for OpenLineage, then its environment variable. */
  def parent(name: String, variable: String, injected: String): Option[Parent] = {
    val ignored = "is not namespace/name/runId with a UUID at the end; it is ignored"
    lookUp(name, "").flatMap(checked(_, ignored)(Parent.parse))
      .orElse(injectedParent(s"spark.openlineage.$injected"))
      .orElse(Settings.given(variable, env).flatMap(checked(_, ignored)(Parent.parse)))
  }

  private def injectedParent(prefix: String): Option[Parent] =
    Settings.given(s"${prefix}RunId", conf).flatMap { runId =>
      val parts = Seq("JobNamespace", "JobName").flatMap(part => Settings.given(prefix + part, conf))
      val parent = if (parts.size == 2) Parent.of(parts(0).value, parts(1).value, runId.value) else None
      if (parent.isEmpty)
        found += s"${runId.key} needs a UUID, ${prefix}JobNamespace and ${prefix}JobName; it is ignored"
      parent
    }

  private def lookUp(name: String, alias: String): Option[Settings.Given] =
    Settings.given(s"spark.headgate.$name", conf)
      .orElse(Settings.given(Settings.variable(name), env))
      .orElse(if (alias.isEmpty) None else Settings.given(alias, conf))

  private def checked[T](given: Settings.Given, otherwise: String)(parse: String => Option[T]): Option[T] = {
    val parsed = parse(given.value)
    if (parsed.isEmpty) found += s"${given.key} '${Settings.shown(given.value)}' $otherwise"
    parsed
  }
}

private[spark] object Settings {
  final case class Given(key: String, value: String)

  private val Longest = 100
  private val ApiPath = "(/api/v1(/lineage(/batch)?)?)?/*$"

  def given(key: String, lookUp: String => Option[String]): Option[Given] =
    lookUp(key).map(_.trim).filter(_.nonEmpty).map(Given(key, _))

  /** `readTimeoutMs` is `HEADGATE_READ_TIMEOUT_MS`. */
  def variable(name: String): String =
    "HEADGATE_" + name.replaceAll("([A-Z])", "_$1").toUpperCase(Locale.ROOT)

  def asFlag(value: String): Option[Boolean] = value.toLowerCase(Locale.ROOT) match {
    case "true" | "1" | "yes" | "on" => Some(true)
    case "false" | "0" | "no" | "off" => Some(false)
    case _ => None
  }

  def asBase(value: String): Option[String] =
    Try(new URL(value)).toOption.filter(isPlain(_, value)).map { url =>
      s"${url.getProtocol}://${url.getAuthority}${url.getPath.replaceFirst(ApiPath, "")}".replaceAll("/+$", "")
    }

  // java.net.URI refuses host names with an underscore, which containers often have.
  private def isPlain(url: URL, value: String): Boolean =
    (url.getProtocol == "http" || url.getProtocol == "https") && url.getHost.nonEmpty && url.getUserInfo == null &&
      url.getQuery == null && url.getRef == null && url.getPort <= 65535 && url.getPort != 0 &&
      value.forall(c => c > ' ' && c != '\\')

  def asFolder(value: String): Option[String] = {
    val path = value.replaceFirst("^file:(//)?(?=/)", "")
    if (path.matches("^[A-Za-z][A-Za-z0-9+.-]+:.*") || path.indexOf(0) >= 0) None else Some(path)
  }

  /** A value as it may stand in a log: what could be a password in a URL is left out. */
  def shown(value: String): String = {
    val bare = value.takeWhile(c => c != '?' && c != '#')
    val at = bare.lastIndexOf('@')
    val open = if (at < 0) bare else "***" + bare.substring(at)
    val clean = open.map(c => if (c < ' ') ' ' else c)
    if (clean.length > Longest) clean.take(Longest) + "..." else clean
  }
}
