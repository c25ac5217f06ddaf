package headgate.spark.plan

import java.util.regex.Pattern

/** Takes the values out of SQL text: strings and numbers become `?`, comments go, names of every kind stay. */
object Masking {

  def sql(text: String): String = new Scanner(text).masked

  private val number = Pattern.compile("(?:\\d+(?:\\.\\d*)?|\\.\\d+)(?:[eE][+-]?\\d+)?(?:BD|bd|[LlSsYyDdFf])?")
  private val dollarQuote = Pattern.compile("\\$\\w*\\$")

  private def isDigit(c: Char): Boolean = c >= '0' && c <= '9'

  private final class Scanner(text: String) extends Marks(text) {
    private val out = new java.lang.StringBuilder(text.length)
    private var at = 0

    def masked: String = {
      while (at < text.length) step()
      out.toString
    }

    private def step(): Unit = text.charAt(at) match {
      case '\'' | '"' => mask(stringEnd(at, escapes = true))
      case '`' => keep(behind("`", at + 1))
      case '-' if ahead("--") => drop(lineEnd)
      case '/' if ahead("/*") && !ahead("/*+") => drop(commentEnd)
      case '$' if dollarMark.isDefined => mask(behind(dollarMark.get, at + dollarMark.get.length))
      case c if isDigit(c) || c == '.' && startsFraction => digits()
      case c if isWordPart(c) => word()
      case _ => keep(at + 1)
    }

    /** Digits begin a number, unless more letters make a name of them, as in `2024_sales`. */
    private def digits(): Unit = {
      val found = number.matcher(text).region(at, text.length)
      val end = if (found.lookingAt()) found.end else at
      if (end > at && !isWordPart(charAt(end))) mask(end) else keep(math.max(wordEnd, at + 1))
    }

    /** A string may have a letter in front: bytes (`X'1F'`) and raw text, in which a backslash is only a backslash. */
    private def word(): Unit = {
      val end = wordEnd
      val prefix = if (end == at + 1) Character.toLowerCase(text.charAt(at)) else ' '
      if ((prefix == 'x' || prefix == 'r') && isQuote(charAt(end))) mask(stringEnd(end, escapes = prefix == 'x'))
      else {
        keep(end)
        // What follows a dot is a name, whatever it begins with.
        if (charAt(at) == '.' && isWordPart(charAt(at + 1))) keep(at + 1)
        if (at > 0 && text.charAt(at - 1) == '.') keep(wordEnd)
      }
    }

    private def mask(end: Int): Unit = {
      out.append('?')
      at = end
    }

    private def keep(end: Int): Unit = {
      out.append(text, at, end)
      at = end
    }

    private def drop(end: Int): Unit = {
      out.append(' ')
      at = end
    }

    /** Comments of this kind can hold others. */
    private def commentEnd: Int = {
      var depth = 1
      var i = at + 2
      while (i < text.length && depth > 0) {
        if (text.startsWith("/*", i)) depth += 1
        else if (text.startsWith("*/", i)) depth -= 1
        i += (if (text.startsWith("/*", i) || text.startsWith("*/", i)) 2 else 1)
      }
      math.min(i, text.length)
    }

    private def lineEnd: Int = {
      var i = at
      while (i < text.length && text.charAt(i) != '\n') i += (if (text.startsWith("\\\n", i)) 2 else 1)
      math.min(i, text.length)
    }

    private def dollarMark: Option[String] = {
      val found = dollarQuote.matcher(text).region(at, text.length)
      if (found.lookingAt()) Some(found.group) else None
    }

    /** A dot behind a name or a bracket leads to a field, not to the digits of a fraction. */
    private def startsFraction: Boolean = {
      val before = if (at == 0) ' ' else text.charAt(at - 1)
      isDigit(charAt(at + 1)) && !isWordPart(before) && "`])".indexOf(before.toInt) < 0
    }

    private def wordEnd: Int = skip(at)(isWordPart)

    private def ahead(mark: String): Boolean = text.startsWith(mark, at)
  }
}
