package headgate.spark.plan

import java.util.Locale

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.expressions.aggregate.Count
import org.apache.spark.sql.types.{BooleanType, NumericType, StringType}

/** Expressions as a person would write them: plain column names, and no more than a screen line or two. */
private[plan] final class ColumnText(maskLiterals: Boolean) {

  /** `helper` gives the expression that the analyzer has put aside under a column's name, if it has. */
  def of(e: Expression, helper: Attribute => Option[Expression]): String = {
    val writing = new Writing(helper)
    writing.write(e)
    writing.result
  }

  /** Stops by itself once the text is long enough: expressions can be far larger than what is shown of them. */
  private final class Writing(helper: Attribute => Option[Expression]) {
    private val out = new java.lang.StringBuilder

    def result: String =
      if (out.length <= ColumnText.Longest) out.toString else out.substring(0, ColumnText.Longest - 1) + "…"

    def write(e: Expression): Unit = if (out.length <= ColumnText.Longest) e match {
      case x: Literal => add(literal(x))
      case x: Attribute => helper(x).fold(add(name(x.name)))(write)
      case x: Alias => write(x.child)
      case x: OuterReference => add(name(x.e.name))
      case x: NamedLambdaVariable => add(x.name)
      case x if Expressions.isWrapper(x) => write(x.children.head)
      case x: BinaryOperator => list("(", Seq(x.left, x.right), s" ${x.sqlOperator} ", ")")
      case x: Cast => after("CAST(", x.child, s" AS ${x.dataType.sql})")
      case x: GetStructField => after("", x.child, "." + Expressions.fieldOf(x))
      case x: GetArrayStructFields => after("", x.child, "." + x.field.name)
      case x: CaseWhen => cases(x)
      case x: AggregateExpression => aggregate(x)
      case x: WindowExpression => window(x)
      case x: SortOrder => after("", x.child, if (x.direction == Descending) " DESC" else "")
      case x: SubqueryExpression => subquery(x)
      case x => writeMore(x)
    }

    private def writeMore(e: Expression): Unit = e match {
      case x: Not => after("(NOT ", x.child, ")")
      case x: IsNull => after("(", x.child, " IS NULL)")
      case x: IsNotNull => after("(", x.child, " IS NOT NULL)")
      case x: UnaryMinus => after("(- ", x.child, ")")
      case x: In =>
        after("(", x.value, " IN ")
        list("(", x.list, ", ", "))")
      case x: InSubquery =>
        list("(", x.values, ", ", " IN ")
        subquery(x.query)
        add(")")
      case x: CreateNamedStruct => struct(x)
      case x: LambdaFunction =>
        list("", x.arguments, ", ", " -> ")
        write(x.function)
      case x: ScalaUDF => call(x.udfName.getOrElse("udf"), x.children)
      case x: PythonUDF => call(x.name, x.children)
      case x: InheritAnalysisRules => call(x.prettyName, x.parameters)
      case x => writeNamed(x)
    }

    private def writeNamed(e: Expression): Unit = (Expressions.nameOf(e), e.children) match {
      case ("GetArrayItem" | "GetMapValue", Seq(whole, key)) =>
        after("", whole, "[")
        after("", key, "]")
      case ("Like" | "RLike", Seq(value, pattern)) =>
        list("(", Seq(value, pattern), s" ${e.prettyName.toUpperCase(Locale.ROOT)} ", ")")
      case ("PivotFirst", Seq(_, value)) => write(value)
      case ("PythonUDAF", arguments) => call(Reflect.text(e, "name").getOrElse("udf"), arguments)
      case ("Lag" | "Lead", input +: _) => list(e.prettyName + "(", input +: offset(e), ", ", ")")
      case (_, children) => call(e.prettyName, children)
    }

    /** `lag` keeps its offset negated among its children, and what the user wrote beside them. */
    private def offset(e: Expression): Seq[Expression] =
      Reflect.firstMember(e, "inputOffset", "offset").toSeq.collect { case x: Expression => x }

    private def call(function: String, arguments: Seq[Expression]): Unit = list(function + "(", arguments, ", ", ")")

    private def aggregate(e: AggregateExpression): Unit = {
      val function = e.aggregateFunction
      function match {
        case count: Count if count.children.forall(_.isInstanceOf[Literal]) => add("count(1)")
        case _ if e.isDistinct => list(function.prettyName + "(DISTINCT ", function.children, ", ", ")")
        case _ => write(function)
      }
      e.filter.foreach(after(" FILTER (WHERE ", _, ")"))
    }

    private def window(e: WindowExpression): Unit = {
      e.windowFunction match {
        case rank: RankLike => add(rank.prettyName + "()")
        case function => write(function)
      }
      val spec = e.windowSpec
      add(" OVER (")
      val between = if (spec.orderSpec.isEmpty) "" else " "
      if (spec.partitionSpec.nonEmpty) list("PARTITION BY ", spec.partitionSpec, ", ", between)
      if (spec.orderSpec.nonEmpty) list("ORDER BY ", spec.orderSpec, ", ", "")
      add(ColumnText.frame(e))
      add(")")
    }

    private def cases(e: CaseWhen): Unit = {
      add("CASE")
      e.branches.foreach { case (condition, value) =>
        after(" WHEN ", condition, " THEN ")
        write(value)
      }
      e.elseValue.foreach(after(" ELSE ", _, ""))
      add(" END")
    }

    private def struct(e: CreateNamedStruct): Unit = {
      add("struct(")
      e.names.zip(e.valExprs).zipWithIndex.foreach { case ((field, value), at) =>
        after(if (at == 0) "" else ", ", value, s" AS $field")
      }
      add(")")
    }

    private def subquery(e: SubqueryExpression): Unit = e match {
      case x: Exists => add("EXISTS (SELECT …)")
      case x => add(x.plan.output.map(column => name(column.name)).mkString("(SELECT ", ", ", " …)"))
    }

    private def after(before: String, e: Expression, behind: String): Unit = {
      add(before)
      write(e)
      add(behind)
    }

    private def list(before: String, parts: Seq[Expression], between: String, behind: String): Unit = {
      add(before)
      val each = parts.iterator
      while (each.hasNext && out.length <= ColumnText.Longest) {
        write(each.next())
        if (each.hasNext) add(between)
      }
      add(behind)
    }

    private def add(text: String): Unit = out.append(text)
  }

  private def literal(e: Literal): String = e.dataType match {
    case _ if e.value == null => "NULL"
    case BooleanType => e.value.toString
    case _ if maskLiterals => "?"
    case _: NumericType => e.value.toString
    case _: StringType => "'" + ColumnText.shortened(e.value.toString).replace("'", "''") + "'"
    case _ => ColumnText.shortened(e.sql)
  }

  /** A column without a name of its own is called by its expression, with the values that are in it. */
  private def name(column: String): String = {
    val bracket = column.indexOf('(')
    if (maskLiterals && bracket >= 0) column.substring(0, bracket) + "(?)" else column
  }
}

private object ColumnText {
  private val Longest = 500

  private def shortened(text: String): String = if (text.length <= Longest) text else text.substring(0, Longest)

  /** The frame, when it is not one that Spark fills in by itself. */
  private def frame(e: WindowExpression): String = (e.windowFunction, e.windowSpec.frameSpecification) match {
    case (_: AggregateExpression, frame: SpecifiedWindowFrame) if !isUsual(frame) => " " + frame.sql
    case _ => ""
  }

  private def isUsual(frame: SpecifiedWindowFrame): Boolean =
    frame.lower == UnboundedPreceding && (frame.upper == UnboundedFollowing ||
      frame.upper == CurrentRow && frame.frameType == RangeFrame)
}
