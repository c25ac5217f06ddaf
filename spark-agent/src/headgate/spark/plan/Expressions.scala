package headgate.spark.plan

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.types.{ArrayType, DataType, StructType}

/** One way in which an expression uses a column; `outer` when the column is of the query around a subquery. */
private[plan] final case class Use(ref: Ref, kind: Kind, outer: Boolean = false)

/** A query inside an expression; `valued` when its columns are values and not only its rows counted. */
private[plan] final case class Nested(plan: LogicalPlan, way: Way, valued: Boolean)

/** Finds the columns and queries that an expression uses, and how each of them counts towards its value. */
private[plan] final class Expressions(text: (Expression, LogicalPlan) => String) {

  /** Uses by an expression over the columns of `root`, whose value as a whole counts as `kind`. */
  def uses(expression: Expression, root: LogicalPlan, path: List[String], kind: Kind): Uses = {
    val found = new Uses(expression, root)
    found.walk(expression, path, kind, found.whole)
    found
  }

  /** Uses by one output column of a generator. */
  def generated(generator: Expression, placed: Placed, path: List[String]): Uses = {
    val found = new Uses(generator, placed.root)
    val position = placed.position
    generator match {
      case g: Inline =>
        found.walk(g.child, fieldNames(g.child).slice(position, position + 1) ++ path, Kind.Transformation, found.whole)
      case g: Explode => found.walk(g.child, path, Kind.Transformation, found.whole)
      case g: PosExplode =>
        found.walk(g.child, if (position == 0) Nil else path, Kind.Transformation, found.whole)
      case g: Stack => stacked(g, position).foreach(found.walk(_, path, Kind.Transformation, found.whole))
      case g => g.children.foreach(found.walk(_, Nil, Kind.Transformation, found.whole))
    }
    found
  }

  private def fieldNames(array: Expression): List[String] = array.dataType match {
    case array: ArrayType => Expressions.fieldNames(array.elementType)
    case _ => Nil
  }

  private def stacked(stack: Stack, position: Int): Seq[Expression] = {
    val values = stack.children.tail
    val rows = stack.children.head.eval(null).asInstanceOf[Int]
    val width = (values.size + rows - 1) / rows
    values.zipWithIndex.collect { case (value, at) if at % width == position => value }
  }

  final class Uses(top: Expression, root: LogicalPlan) {
    val columns = mutable.LinkedHashMap.empty[Use, Way]
    val queries = mutable.ArrayBuffer.empty[Nested]
    lazy val whole: Option[String] = Some(text(top, root))

    def walk(e: Expression, path: List[String], kind: Kind, said: => Option[String]): Unit = e match {
      case x: Attribute => add(Use(Ref(x.exprId.id, path), kind), said)
      case x: Alias => walk(x.child, path, kind, said)
      case x: OuterReference => outer(x.e, path, kind, said)
      case x: GetStructField => walk(x.child, Expressions.fieldOf(x) :: path, kind, said)
      case x: GetArrayStructFields => walk(x.child, x.field.name :: path, kind, said)
      case x: CreateNamedStruct if path.nonEmpty => pick(x, path, kind, said)
      case x if Expressions.isWrapper(x) => walk(x.children.head, path, kind, said)
      case x: CaseWhen => choose(x.branches.map(_._1), x.branches.map(_._2) ++ x.elseValue.toSeq, path, kind, said)
      case x: If => choose(Seq(x.predicate), Seq(x.trueValue, x.falseValue), path, kind, said)
      case x: AggregateExpression => aggregate(x, kind, said)
      case x: WindowExpression => window(x, kind, said)
      case x: SubqueryExpression => query(x, kind, said)
      case x: InheritAnalysisRules if x.prettyName == "nullif" => nullIf(x.parameters, kind, said)
      case x => others(x, path, kind, said)
    }

    private def others(e: Expression, path: List[String], kind: Kind, said: => Option[String]): Unit = {
      val inside = Expressions.computed(kind, Expressions.isMasking(e))
      Expressions.nameOf(e) match {
        case "GetArrayItem" | "ElementAt" | "Coalesce" => e.children.foreach(walk(_, path, inside, said))
        case "OuterScopeReference" =>
          Reflect.member(e, "e").collect { case x: NamedExpression => outer(x, path, kind, said) }
        case "PivotFirst" => choose(e.children.take(1), e.children.drop(1), Nil, kind, said)
        case _ => e.children.foreach(walk(_, Nil, inside, said))
      }
    }

    private def outer(e: NamedExpression, path: List[String], kind: Kind, said: => Option[String]): Unit =
      add(Use(Ref(e.exprId.id, path), kind, outer = true), said)

    private def pick(struct: CreateNamedStruct, path: List[String], kind: Kind, said: => Option[String]): Unit =
      struct.names.zip(struct.valExprs).find(_._1.toString == path.head) match {
        case Some((_, value)) => walk(value, path.tail, kind, said)
        case None => struct.valExprs.foreach(walk(_, Nil, Expressions.computed(kind), said))
      }

    private def choose(
        conditions: Seq[Expression],
        values: Seq[Expression],
        path: List[String],
        kind: Kind,
        said: => Option[String]): Unit = {
      conditions.foreach { condition =>
        lazy val own = Some(text(condition, root))
        if (kind.direct) walk(condition, Nil, Kind.Conditional, own) else walk(condition, Nil, kind, said)
      }
      values.foreach(walk(_, path, Expressions.computed(kind), said))
    }

    private def nullIf(compared: Seq[Expression], kind: Kind, said: => Option[String]): Unit = {
      compared.foreach(walk(_, Nil, if (kind.direct) Kind.Conditional else kind, said))
      walk(compared.head, Nil, Expressions.computed(kind), said)
    }

    private def aggregate(e: AggregateExpression, kind: Kind, said: => Option[String]): Unit = {
      val function = e.aggregateFunction
      val masking = kind.masking || Expressions.isMasking(function)
      val inside = if (kind.direct) Kind.Aggregation.copy(masking = masking) else kind
      if (Expressions.nameOf(function) == "PivotFirst") others(function, Nil, inside, said)
      else function.children.foreach(walk(_, Nil, inside, said))
      e.filter.foreach { filter =>
        lazy val own = Some(text(filter, root))
        if (kind.direct) walk(filter, Nil, Kind.Filter, own) else walk(filter, Nil, kind, said)
      }
    }

    /** Ranking functions are given the order of the window as arguments: those are no values of theirs. */
    private def window(e: WindowExpression, kind: Kind, said: => Option[String]): Unit = {
      e.windowFunction match {
        case _: RankLike => ()
        case function => walk(function, Nil, Expressions.computed(kind), said)
      }
      val around = if (kind.direct) Kind.Window else kind
      val spec = e.windowSpec
      (spec.partitionSpec ++ spec.orderSpec.map(_.child)).foreach(walk(_, Nil, around, said))
    }

    private def query(e: SubqueryExpression, kind: Kind, said: => Option[String]): Unit = e match {
      case x: Exists => queries += Nested(x.plan, way(Expressions.computed(kind), said), valued = false)
      case x => queries += Nested(x.plan, way(Expressions.computed(kind), said), valued = true)
    }

    private def add(use: Use, said: => Option[String]): Unit =
      if (!columns.contains(use)) columns.put(use, way(use.kind, said))

    private def way(kind: Kind, said: => Option[String]): Way =
      if (kind == Kind.Identity) Way.plain else new Way(kind, said)
  }
}

private[plan] object Expressions {
  private val userCast = TreeNodeTag[Unit]("user_specified_cast")

  /** Functions whose result does not show what they were given. */
  private val masking = Set(
    "Crc32", "HiveHash", "Md5", "Murmur3Hash", "Sha1", "Sha2", "XxHash64", "CollationAwareMurmur3Hash",
    "CollationAwareXxHash64", "Mask", "Count", "CountIf", "HyperLogLogPlusPlus", "ApproxCountDistinct")

  private val wrappers = Set(
    "KnownNotNull", "AssertNotNull", "KnownNullable", "CheckOverflowInTableInsert", "UpCast", "PromotePrecision")

  private val names = new ClassValue[String] {
    override def computeValue(one: Class[_]): String =
      one.getName.substring(one.getName.lastIndexOf('.') + 1).stripSuffix("$")
  }

  /** The name of an expression's class, for those that are not in every version. */
  def nameOf(e: Expression): String = names.get(e.getClass)

  def isMasking(e: Expression): Boolean = masking(nameOf(e))

  /** What the analyzer puts around a value so that it fits: casts nobody wrote, checks, padding of CHAR columns. */
  def isWrapper(e: Expression): Boolean = e match {
    case x: Cast => x.getTagValue(userCast).isEmpty
    case x => wrappers(nameOf(x)) || isCharCheck(x)
  }

  def computed(kind: Kind, masked: Boolean = false): Kind =
    if (!kind.direct) kind
    else {
      val raised = if (kind.subtype == Kind.Identity.subtype) Kind.Transformation else kind
      if (masked || kind.masking) raised.copy(masking = true) else raised
    }

  def fieldOf(e: GetStructField): String = e.name.getOrElse(e.child.dataType match {
    case struct: StructType => struct.fields(e.ordinal).name
    case _ => e.ordinal.toString
  })

  private def fieldNames(dataType: DataType): List[String] = dataType match {
    case struct: StructType => struct.fieldNames.toList
    case _ => Nil
  }

  private def isCharCheck(e: Expression): Boolean =
    nameOf(e) == "StaticInvoke" && e.children.nonEmpty &&
      Reflect.text(e, "staticObject").exists(_.contains("CharVarcharCodegenUtils"))
}
