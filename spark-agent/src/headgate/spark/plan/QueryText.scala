package headgate.spark.plan

import java.util.Locale

/** The little that is read of SQL sent to another database: which tables it names. */
object QueryText {

  private val Name = """(?:[\w$]+|"[^"]+"|`[^`]+`|\[[^\]]+\])"""
  private val FromOrJoin = s"(?i)\\b(?:from|join)\\s+($Name(?:\\s*\\.\\s*$Name)*)".r
  private val Defined = s"(?i)(?:\\bwith(?:\\s+recursive)?|,)\\s+($Name)\\s*(?:\\([^()]*\\))?\\s+as\\s*\\(".r
  private val PlainColumns =
    s"\\*|$Name(?:\\s*\\.\\s*(?:$Name|\\*))*(?:\\s*,\\s*$Name(?:\\s*\\.\\s*$Name)*)*"
  private val PlainSelect = s"(?is)\\s*select\\s+($PlainColumns)\\s+from\\s.*".r
  private val Words = Set("select", "lateral", "unnest", "table", "values", "only")

  def isQuery(text: String): Boolean = text.startsWith("(") || text.matches("(?is)\\s*(select|with)\\s.*")

  def tables(query: String): Seq[String] = {
    val text = bare(query)
    val own = Words ++ Defined.findAllMatchIn(text).map(_.group(1).toLowerCase(Locale.ROOT))
    FromOrJoin.findAllMatchIn(text).map(_.group(1)).filterNot(name => own(name.toLowerCase(Locale.ROOT))).toSeq.distinct
  }

  /** Whether every column comes out under the name it has in its table. */
  def selectsColumnsAsTheyAre(query: String): Boolean = {
    val text = bare(query).trim
    val inner = if (text.startsWith("(")) text.substring(1) else text
    PlainSelect.pattern.matcher(inner).matches && !inner.matches("(?is).*\\b(union|join)\\b.*")
  }

  /** The parts of a dotted name, without their quotes. */
  def identifier(name: String): Seq[String] =
    Name.r.findAllIn(name.replaceFirst("(?is)\\s+(as\\s+)?\\w+$", "")).map(unquoted).toSeq match {
      case Seq() => Seq(name.trim)
      case parts => parts
    }

  private def unquoted(part: String): String =
    if (part.length > 1 && "\"`[".indexOf(part.head) >= 0) part.substring(1, part.length - 1) else part

  private def bare(query: String): String =
    query.replaceAll("--[^\\n]*", " ").replaceAll("(?s)/\\*.*?\\*/", " ").replaceAll("'(?:[^']|'')*'", "''")
}
