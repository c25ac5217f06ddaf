package headgate.spark.plan

import java.util.{HashMap, IdentityHashMap}

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions.{And, Attribute, Expression, NamedExpression}
import org.apache.spark.sql.catalyst.plans.logical._

/** A column as an expression refers to it: its id, and the struct fields picked out of it, outermost first. */
private[plan] final case class Ref(id: Long, path: List[String] = Nil)

/** What gives an id its value. `root` is the region in which the parts of the value are looked up. */
private[plan] sealed trait Producer { def root: LogicalPlan }

private[plan] final case class Computed(expression: Expression, root: LogicalPlan) extends Producer

private[plan] final case class Placed(attribute: Attribute, position: Int, node: LogicalPlan, root: LogicalPlan)
    extends Producer

/**
 * The part of a plan in which ids keep their meaning: from a root down through filters, joins and the like, to nodes
 * that compute new columns. Each is walked once, without recursion, however long a chain of such nodes is.
 */
private[plan] final class Region(val root: LogicalPlan) {
  val producers = new HashMap[Long, Producer]
  val deciders = new ArrayBuffer[(Expression, Kind)]
  val frontier = new ArrayBuffer[LogicalPlan]
  private val known = new HashMap[Long, ColumnOrigins.Origins]
  private val knownFields = new HashMap[Ref, ColumnOrigins.Origins]

  def knownOf(ref: Ref): ColumnOrigins.Origins = if (ref.path.isEmpty) known.get(ref.id) else knownFields.get(ref)

  def know(ref: Ref, origins: ColumnOrigins.Origins): Unit =
    if (ref.path.isEmpty) known.put(ref.id, origins) else knownFields.put(ref, origins)
}

/** Cuts a plan into regions and remembers what has been cut. */
private[plan] final class ColumnRegions {
  private val regions = new IdentityHashMap[LogicalPlan, Region]
  private val outputs = new IdentityHashMap[LogicalPlan, Array[Long]]
  private val shared = new HashMap[Long, LogicalPlan]
  private val loops = new HashMap[Any, LogicalPlan]

  def of(root: LogicalPlan): Region = {
    val found = regions.get(root)
    if (found != null) found
    else {
      val region = new Region(root)
      regions.put(root, region)
      fill(region)
      region
    }
  }

  /** The ids of a node's output: nodes make their output anew at each call, so it is asked for once. */
  def outputOf(node: LogicalPlan): Array[Long] = {
    val found = outputs.get(node)
    if (found != null) found
    else {
      val ids = node.output.iterator.map(_.exprId.id).toArray
      outputs.put(node, ids)
      ids
    }
  }

  /** The definition that a CTE reference stands for. */
  def definition(id: Long): Option[LogicalPlan] = Option(shared.get(id))

  /** What a recursive query starts from, which its references to itself stand for. */
  def anchorOf(reference: LogicalPlan): Option[LogicalPlan] =
    Reflect.member(reference, "loopId").flatMap(id => Option(loops.get(id)))

  /** What the analyzer put aside under a name of its own, to be shown in that name's place. */
  def helperOf(root: LogicalPlan)(attribute: Attribute): Option[Expression] =
    if (!ColumnRegions.isHelper(attribute.name)) None
    else of(root).producers.get(attribute.exprId.id) match {
      case Computed(expression, _) => Some(expression)
      case _ => None
    }

  private def fill(region: Region): Unit = {
    val waiting = new java.util.ArrayDeque[LogicalPlan]
    waiting.push(region.root)
    while (!waiting.isEmpty) {
      val below = visit(waiting.pop(), region)
      below.reverseIterator.foreach(waiting.push)
    }
  }

  /** Notes what a node gives to its region; returns the children that belong to the region too. */
  private def visit(node: LogicalPlan, region: Region): Seq[LogicalPlan] = node match {
    case n: Project => compute(n.projectList, n, n.child, region)
    case n: Aggregate => compute(n.aggregateExpressions, n, n.child, region)
    case n: Window =>
      n.windowExpressions.foreach(define(_, region.root, region))
      Seq(n.child)
    case n: Generate =>
      place(n.generatorOutput, n, region)
      Seq(n.child)
    case n: Filter =>
      conjuncts(n.condition).foreach(decide(_, Kind.Filter, region))
      Seq(n.child)
    case n: Join =>
      val kind = if (ColumnRegions.isExistence(n.joinType.sql)) Kind.Filter else Kind.Join
      n.condition.toSeq.flatMap(conjuncts).foreach(decide(_, kind, region))
      Seq(n.left, n.right)
    case n: AsOfJoin =>
      (n.asOfCondition +: n.condition.toSeq).foreach(decide(_, Kind.Join, region))
      Seq(n.left, n.right)
    case n: Sort =>
      n.order.foreach(order => decide(order.child, Kind.Sort, region))
      Seq(n.child)
    case n: Deduplicate =>
      n.keys.foreach(decide(_, Kind.GroupBy, region))
      Seq(n.child)
    case n: Distinct =>
      n.output.foreach(decide(_, Kind.GroupBy, region))
      Seq(n.child)
    case n: TypedFilter =>
      decide(n.deserializer, Kind.Filter, region)
      Seq(n.child)
    case other => visitRare(other, region)
  }

  private def visitRare(node: LogicalPlan, region: Region): Seq[LogicalPlan] = node match {
    case n: LateralJoin =>
      n.condition.foreach(decide(_, Kind.Join, region))
      end(n.right.plan.output, n, region)
      Seq(n.left)
    case n: WithCTE =>
      n.cteDefs.foreach(definition => shared.put(definition.id, definition.child))
      Seq(n.plan)
    case _: Intersect | _: Except =>
      region.frontier += node
      Seq(node.children.head)
    case n if ColumnRegions.transparent(n.getClass.getName) => n.children
    case n if Reflect.simpleName(n) == "UnionLoop" =>
      Reflect.member(n, "id").foreach(loops.put(_, n.children.head))
      end(n.output, n, region)
    case n => end(n.output, n, region)
  }

  private def compute(list: Seq[NamedExpression], node: LogicalPlan, child: LogicalPlan, region: Region) = {
    list.foreach(define(_, child, region))
    region.frontier += node
    Nil
  }

  private def define(expression: NamedExpression, root: LogicalPlan, region: Region): Unit =
    region.producers.putIfAbsent(expression.exprId.id, Computed(expression, root))

  private def end(output: Seq[Attribute], node: LogicalPlan, region: Region): Seq[LogicalPlan] = {
    place(output, node, region)
    region.frontier += node
    Nil
  }

  private def place(output: Seq[Attribute], node: LogicalPlan, region: Region): Unit = {
    var position = 0
    output.foreach { attribute =>
      region.producers.putIfAbsent(attribute.exprId.id, Placed(attribute, position, node, region.root))
      position += 1
    }
  }

  private def decide(expression: Expression, kind: Kind, region: Region): Unit = region.deciders += ((expression, kind))

  private def conjuncts(condition: Expression): Seq[Expression] = {
    val found = new ArrayBuffer[Expression]
    val waiting = new java.util.ArrayDeque[Expression]
    waiting.push(condition)
    while (!waiting.isEmpty) waiting.pop() match {
      case both: And =>
        waiting.push(both.right)
        waiting.push(both.left)
      case one => found += one
    }
    found.toSeq
  }
}

private[plan] object ColumnRegions {
  private val logical = "org.apache.spark.sql.catalyst.plans.logical."

  /** Nodes whose columns are those of their child, unchanged. Others may be too, but are asked for their output. */
  private val passing: Set[String] = Set(
    "SubqueryAlias", "View", "GlobalLimit", "LocalLimit", "Tail", "Offset", "Sample", "Repartition",
    "RepartitionByExpression", "RebalancePartitions", "ResolvedHint", "UnresolvedHint", "ReturnAnswer",
    "EventTimeWatermark", "CollectMetrics", "CTERelationDef", "WithWindowDefinition").map(logical + _)

  def isHelper(name: String): Boolean = name.startsWith("_w") && name.drop(2).forall(c => c == 'e' || c.isDigit)

  def transparent(className: String): Boolean = passing(className)

  def isExistence(joinType: String): Boolean = joinType == "LEFT SEMI" || joinType == "LEFT ANTI"
}
