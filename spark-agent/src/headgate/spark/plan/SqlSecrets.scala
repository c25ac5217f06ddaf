package headgate.spark.plan

import java.util.Locale

/** Goes through a statement by its grammar: hidden is what follows a secret's name, and what strings hold of one. */
private[plan] final class SqlSecrets(text: String) extends Marks(text) {
  import SqlSecrets._

  private val out = new java.lang.StringBuilder(text.length)
  private var at = 0
  private var expected: Expected = Nothing

  def redacted: String = {
    while (at < text.length) step()
    out.toString
  }

  private def step(): Unit = text.charAt(at) match {
    case c if isSpace(c) => keep(at + 1)
    case c if isQuote(c) => string(at, stringEnd(at))
    case '`' => quotedName(behind("`", at + 1))
    case '-' if text.startsWith("--", at) => comment(skip(at)(_ != '\n'))
    case '/' if text.startsWith("/*", at) => comment(behind("*/", at + 2))
    case '=' | ':' | '<' | '>' | '!' => mark(text.charAt(at))
    case ',' if expected == AfterString => keep(at + 1)
    case c if expected == Assigned && ",;()".indexOf(c.toInt) < 0 => bareValue()
    case c if isWordPart(c) => name()
    case _ => other()
  }

  private def string(open: Int, end: Int): Unit = {
    val isClosed = end > open + 1 && text.charAt(end - 1) == text.charAt(open)
    val close = if (isClosed) end - 1 else end
    val inner = text.substring(open + 1, close)
    val isHidden = expected != Nothing
    val shown = if (isHidden) Redaction.Mask else Redaction.content(inner)
    out.append(text, at, open + 1).append(shown).append(text, close, end)
    at = end
    // Strings side by side are one string to Spark.
    expected = if (isHidden) Named else if (isName(inner) && Redaction.isSecret(inner)) AfterString else Nothing
  }

  private def quotedName(end: Int): Unit = {
    val isKey = Redaction.isSecret(text.substring(at, end))
    keep(end)
    expected = if (isKey) Named else Nothing
  }

  private def comment(end: Int): Unit = {
    out.append(Redaction.text(text.substring(at, end), maskLiterals = false))
    at = end
  }

  private def mark(c: Char): Unit = {
    // Behind a colon may stand a type, which is no value.
    if (expected != Nothing && c == '=') expected = Assigned
    keep(at + 1)
  }

  private def name(): Unit = {
    val end = nameEnd(at)
    if (end == at + 1 && isQuote(charAt(end)) && "xXrR".indexOf(text.charAt(at).toInt) >= 0)
      string(end, stringEnd(end, escapes = Character.toLowerCase(text.charAt(at)) == 'x'))
    else {
      val isKey = Redaction.isSecret(text.substring(at, end))
      keep(end)
      expected = if (isKey) Named else Nothing
    }
  }

  /** Columns of another table, functions and key words are no secrets themselves. */
  private def bareValue(): Unit = {
    val end = bareEnd
    val value = text.substring(at, end)
    val isPrefix = value.length == 1 && isQuote(charAt(end))
    val isName = value.matches("\\w*[A-Za-z_]\\w*(\\.\\w+)+") || KeyWords(value.toLowerCase(Locale.ROOT))
    if (end == at || isPrefix || charAt(end) == '(' || isName) {
      if (!isPrefix) expected = Nothing
      if (isPrefix || isWordPart(text.charAt(at))) name() else keep(at + 1)
    } else {
      out.append(Redaction.Mask)
      at = end
      expected = Nothing
    }
  }

  private def bareEnd: Int = {
    var i = at
    while (i < text.length && !isSpace(text.charAt(i)) && ",;()'\"`".indexOf(text.charAt(i).toInt) < 0 &&
      !text.startsWith("--", i) && !text.startsWith("/*", i)) i += 1
    i
  }

  private def isName(inner: String): Boolean = inner.length < 200 && inner.matches("[\\w.\\-/ ]+")

  private def other(): Unit = {
    expected = Nothing
    keep(at + 1)
  }

  private def keep(end: Int): Unit = {
    out.append(text, at, end)
    at = end
  }
}

private[plan] object SqlSecrets {
  /** What may come next: a string behind a name, any value behind `=`, and a string behind a string and a comma. */
  private sealed trait Expected
  private case object Nothing extends Expected
  private case object Named extends Expected
  private case object Assigned extends Expected
  private case object AfterString extends Expected

  private val KeyWords = Set("null", "true", "false", "case", "cast", "default", "select", "not", "any", "all")
}
