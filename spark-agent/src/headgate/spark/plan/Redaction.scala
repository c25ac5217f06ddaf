package headgate.spark.plan

import java.util.Locale
import java.util.regex.Matcher

/** Takes credentials out of text that leaves the job: statements, error messages and stack traces. */
object Redaction {

  private[plan] val Mask = "***"

  /** Free text without its secrets; with `maskLiterals` also without what is quoted and without numbers. */
  def text(message: String, maskLiterals: Boolean): String =
    if (message == null) ""
    else {
      val shown = new KeyedValues(urls(message)).redacted
      if (maskLiterals) new QuotedValues(shown).masked else shown
    }

  /** A statement without its secrets; all else in it stays as it was. */
  def sql(statement: String): String = statement match {
    case Setting(head, name, _) if isSecret(name) => head + Mask
    // Files are named without quotes in some statements, which only a look at the whole can find.
    case other => urls(new SqlSecrets(other).redacted)
  }

  def isSecret(name: String): Boolean = Words.findFirstIn(name).isDefined

  /** What is between the quotes of a string. */
  private[plan] def content(inner: String): String =
    if (inner.trim.toLowerCase(Locale.ROOT).startsWith("jdbc:")) JdbcUrls.redacted(inner)
    else new KeyedValues(urls(inner, Spaced)).redacted

  private def urls(text: String, url: scala.util.matching.Regex = Delimited): String = {
    val plain = JdbcUrl.replaceAllIn(text, found => Matcher.quoteReplacement(JdbcUrls.redacted(found.matched)))
    val hidden = url.replaceAllIn(plain, found => {
      val (scheme, rest) = (found.group(1), found.group(2))
      val end = Locations.userInfoEnd(scheme, rest)
      Matcher.quoteReplacement(if (end == 0) found.matched else s"$scheme://$Mask@${rest.substring(end)}")
    })
    Header.replaceAllIn(hidden, found => Matcher.quoteReplacement(found.group(1) + Mask))
  }

  // Names that are too short to be looked for inside of others stand between what is no letter.
  private val Words = ("(?i)password|passwd|passphrase|secret|token|credential|jaas|signature|connection.?string" +
    "|(?:access|account|api|private|encryption|shared|storage|master).?key|(?<![a-z])(?:pwd?|pass|sas|sig)(?![a-z])").r
  private val Delimited = "\\b([A-Za-z][A-Za-z0-9+.\\-]{0,30})://([^\\s'\"`<>]+)".r
  private val Spaced = "\\b([A-Za-z][A-Za-z0-9+.\\-]{0,30})://(\\S+)".r
  private val JdbcUrl = "(?i)\\bjdbc:[^\\s'\"`<>]+".r
  private val Header =
    "(?i)((?:\\bauthorization['\"]?\\s*[:=]\\s*['\"]?(?:basic\\s+|bearer\\s+)?|\\bbearer\\s+))[\\w\\-.~+/=]+".r
  private val Setting = "(?is)((?:\\s++|--[^\\n]*\\n|/\\*.*?\\*/)*SET\\s+([^=]*?)\\s*=\\s*)(.*)".r
}

/** Where things end in SQL text and in text that quotes it. */
private[plan] class Marks(text: String) {

  protected def charAt(i: Int): Char = if (i >= 0 && i < text.length) text.charAt(i) else ' '

  protected def isQuote(c: Char): Boolean = c == '\'' || c == '"'

  protected def isWordPart(c: Char): Boolean = Character.isLetterOrDigit(c) || c == '_'

  protected def isSpace(c: Char): Boolean = Character.isWhitespace(c)

  protected def skip(from: Int)(passes: Char => Boolean): Int = {
    var i = from
    while (i < text.length && passes(text.charAt(i))) i += 1
    i
  }

  /** A dotted or dashed name; two dashes begin a comment. */
  protected def nameEnd(from: Int): Int = {
    var i = from
    while (isWordPart(charAt(i)) || (charAt(i) == '.' || charAt(i) == '-') && isWordPart(charAt(i + 1))) i += 1
    i
  }

  protected def stringEnd(open: Int, escapes: Boolean = true): Int = {
    val quote = text.charAt(open)
    var i = open + 1
    while (i < text.length) {
      if (escapes && text.charAt(i) == '\\') i += 2
      else if (text.charAt(i) != quote) i += 1
      else if (charAt(i + 1) == quote) i += 2
      else return i + 1
    }
    text.length
  }

  protected def behind(mark: String, from: Int): Int = {
    val found = text.indexOf(mark, from)
    if (found < 0) text.length else found + mark.length
  }
}

/** Names of secrets in free text, each followed by its value: `password=x`, `"token": "x"`, `secret 'x'`. */
private[plan] final class KeyedValues(text: String) extends Marks(text) {
  private val out = new java.lang.StringBuilder(text.length)
  private var at = 0

  def redacted: String = {
    while (at < text.length) {
      if (isWordPart(text.charAt(at))) name() else keep(at + 1)
    }
    out.toString
  }

  private def name(): Unit = {
    val start = at
    keep(nameEnd(at))
    val name = text.substring(start, at)
    if (Redaction.isSecret(name) && !isCode(name)) value(wasQuoted = closesQuote(start))
  }

  /** Classes and source files of a stack trace are followed by a colon too. */
  private def isCode(name: String): Boolean = name.matches("(?s).*(?:Exception|Error|\\.(?:java|scala|py|kt))")

  private def closesQuote(start: Int): Boolean =
    "'\"`".indexOf(charAt(start - 1).toInt) >= 0 && charAt(skip(at)(_ == '\\')) == charAt(start - 1)

  private def value(wasQuoted: Boolean): Unit = {
    val closed = if (wasQuoted) skip(at)(_ == '\\') + 1 else at
    val mark = skip(closed)(isSpace)
    val behindMark =
      if (wasQuoted && charAt(mark) == ',') mark + 1
      else if (text.startsWith("->", mark)) mark + 2
      else skip(mark)(c => "=:>".indexOf(c.toInt) >= 0)
    val begin = skip(behindMark)(isSpace)
    val open = skip(begin)(_ == '\\')
    val isNamed = behindMark > mark && charAt(mark) != ','
    if (isQuote(charAt(open)) && (wasQuoted || begin > closed)) quoted(begin, open)
    else if (isNamed) bare(begin)
  }

  /** A string inside a string has its quotes escaped or doubled. */
  private def quoted(begin: Int, open: Int): Unit = {
    val quote = text.charAt(open).toString
    val next = charAt(open + 2)
    val isDoubled = open == begin && charAt(open + 1) == quote.head && !isSpace(next) && ",;)".indexOf(next.toInt) < 0
    val mark = if (isDoubled) quote * 2 else text.substring(begin, open) + quote
    val first = begin + mark.length
    val end = if (mark.length > 1) behind(mark, first) else stringEnd(open)
    keep(first)
    out.append(Redaction.Mask).append(mark)
    at = end
  }

  private def bare(begin: Int): Unit = {
    val end =
      if (charAt(begin) == '{') behind("}", begin)
      else skip(begin)(c => !isSpace(c) && "&;,'\")}]<>".indexOf(c.toInt) < 0)
    keep(begin)
    if (end > begin) out.append(Redaction.Mask)
    at = end
  }

  private def keep(end: Int): Unit = {
    out.append(text, at, math.min(end, text.length))
    at = math.min(end, text.length)
  }
}

/** Quoted values and numbers of free text become `?`; names that hold digits, and the lines of source files, stay. */
private[plan] final class QuotedValues(text: String) extends Marks(text) {
  private val out = new java.lang.StringBuilder(text.length)
  private var at = 0

  def masked: String = {
    while (at < text.length) step()
    out.toString
  }

  private def step(): Unit = {
    val c = text.charAt(at)
    if (c == '"' || c == '\'' && opens) mask(valueEnd)
    else if (c >= '0' && c <= '9') { if (isLine) keep(nameEnd(at)) else mask(nameEnd(at)) }
    else if (isWordPart(c) || c == '$') keep(skip(at)(c => isWordPart(c) || c == '$'))
    else keep(at + 1)
  }

  /** An apostrophe inside or behind a word is none, but bytes and raw strings have a letter in front. */
  private def opens: Boolean =
    !isWordPart(charAt(at - 1)) || "xXrR".indexOf(charAt(at - 1).toInt) >= 0 && !isWordPart(charAt(at - 2))

  private def valueEnd: Int = {
    val end = stringEnd(at)
    val isClosed = end > at + 1 && charAt(end - 1) == text.charAt(at)
    if (isClosed) end else skip(at)(_ != '\n')
  }

  private def isLine: Boolean =
    charAt(at - 1) == ':' &&
      Seq(".java", ".scala", ".py", ".kt").exists(kind => text.startsWith(kind, at - 1 - kind.length))

  private def mask(end: Int): Unit = {
    out.append('?')
    at = end
  }

  private def keep(end: Int): Unit = {
    out.append(text, at, end)
    at = end
  }
}
