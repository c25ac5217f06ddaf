package headgate.spark.facet

import java.nio.charset.StandardCharsets

/** Writes JSON text. Spark's own JSON libraries change between versions, and this is all that events need. */
final class Json {
  private val out = new java.lang.StringBuilder(4096)
  private var first = true

  def bytes: Array[Byte] = out.toString.getBytes(StandardCharsets.UTF_8)

  def obj(body: => Unit): Unit = enclosed('{', '}')(body)

  def arr(body: => Unit): Unit = enclosed('[', ']')(body)

  def key(name: String): Json = {
    separate()
    quoted(name)
    out.append(':')
    first = true
    this
  }

  def text(value: String): Unit = {
    separate()
    quoted(value)
  }

  def number(value: Long): Unit = {
    separate()
    out.append(value)
  }

  def bool(value: Boolean): Unit = {
    separate()
    out.append(value)
  }

  def field(name: String, value: String): Unit = key(name).text(value)

  def field(name: String, value: Long): Unit = key(name).number(value)

  def field(name: String, value: Boolean): Unit = key(name).bool(value)

  def field(name: String, value: Option[String]): Unit = value.foreach(field(name, _))

  def count(name: String, value: Option[Long]): Unit = value.foreach(field(name, _))

  def each[A](name: String, items: Iterable[A])(write: A => Unit): Unit = key(name).arr(items.foreach(write))

  private def enclosed(open: Char, close: Char)(body: => Unit): Unit = {
    separate()
    out.append(open)
    first = true
    body
    out.append(close)
    first = false
  }

  private def separate(): Unit = {
    if (!first) out.append(',')
    first = false
  }

  private def quoted(value: String): Unit = {
    out.append('"')
    var i = 0
    while (i < value.length) {
      escaped(value, i)
      i += 1
    }
    out.append('"')
  }

  private def escaped(value: String, at: Int): Unit = value.charAt(at) match {
    case '"' => out.append("\\\"")
    case '\\' => out.append("\\\\")
    case '\n' => out.append("\\n")
    case '\r' => out.append("\\r")
    case '\t' => out.append("\\t")
    case c if c < ' ' || c == '\u2028' || c == '\u2029' => unicode(c)
    case c if Character.isSurrogate(c) && !isPaired(value, at) => out.append('\ufffd')
    case c => out.append(c)
  }

  private def unicode(c: Char): Unit = out.append(String.format("\\u%04x", Integer.valueOf(c.toInt)))

  /** Half a pair is no text in any encoding; a truncated or odd name may hold one. */
  private def isPaired(value: String, at: Int): Boolean = {
    val c = value.charAt(at)
    if (Character.isHighSurrogate(c)) at + 1 < value.length && Character.isLowSurrogate(value.charAt(at + 1))
    else at > 0 && Character.isHighSurrogate(value.charAt(at - 1))
  }
}
