package headgate.spark.plan

import java.util.{IdentityHashMap, Locale}

import scala.collection.mutable
import scala.util.control.{ControlThrowable, NonFatal}

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.LogicalRDD
import org.apache.spark.sql.execution.columnar.InMemoryRelation

import headgate.spark.plan.ColumnOrigins.Origins

/** Follows columns of a query back to the columns of datasets, by the ids that Spark gives to each column. */
final class Columns(
    datasetOf: LogicalPlan => Option[DatasetId],
    settings: ReadSettings,
    foreign: Map[Long, LogicalPlan]) {

  private val regions = new ColumnRegions
  private val text = new ColumnText(settings.maskLiterals)
  private val expressions = new Expressions((expression, root) => text.of(expression, regions.helperOf(root)))
  private val datasets = new IdentityHashMap[LogicalPlan, Option[DatasetId]]
  private val losses = mutable.LinkedHashSet.empty[String]
  private var budget = new ColumnBudget
  private var scopes: List[LogicalPlan] = Nil

  /** Where lineage could not be followed, in words. */
  def lost: Seq[String] = losses.toList

  /** What each column of `query` is made from; columns beyond the given names keep their own. */
  def lineage(query: LogicalPlan, targetColumns: Seq[String]): ColumnLineage = bounded {
    val output = query.output
    val names = targetColumns ++ output.drop(targetColumns.size).map(_.name)
    val fields = output.zip(names).map { case (attribute, name) =>
      val found = budget.keep(origins(query, Ref(attribute.exprId.id)))
      (name, ColumnOrigins.steps(found))
    }
    ColumnLineage(fields.toList, ColumnOrigins.steps(budget.keep(deciders(query))))
  }

  /** What MERGE, UPDATE and DELETE assign, and which columns decide on the rows that they touch. */
  def merge(command: LogicalPlan): ColumnLineage = ColumnChanges.rewritten(command) match {
    case Some((query, columns)) =>
      val known = columns.map(_.toLowerCase(Locale.ROOT)).toSet
      val all = lineage(query, Nil)
      all.copy(fields = all.fields.filter { case (name, _) => known(name.toLowerCase(Locale.ROOT)) })
    case None => bounded(changed(ColumnChanges.of(command)))
  }

  private def changed(changes: ColumnChanges): ColumnLineage = {
    val fields = mutable.LinkedHashMap.empty[String, Origins]
    changes.assigned.foreach { one =>
      val value = within(changes.tables, one.value, Kind.Identity)
      val when = all(one.condition.toSeq)(within(changes.tables, _, Kind.Conditional))
      val before = fields.getOrElse(one.column, ColumnOrigins.none)
      fields(one.column) = ColumnOrigins.merge(ColumnOrigins.merge(before, value), when)
    }
    val rows = all(changes.deciders) { case (condition, kind) => within(changes.tables, condition, kind) }
    ColumnLineage(
      fields.toList.map { case (name, found) => (name, ColumnOrigins.steps(budget.keep(found))) },
      ColumnOrigins.steps(budget.keep(ColumnOrigins.merge(rows, all(changes.tables)(deciders)))))
  }

  private def bounded(body: => ColumnLineage): ColumnLineage =
    try {
      budget = new ColumnBudget
      body
    } catch {
      case _: ColumnBudget.Spent => lose("columns were left out: there are too many ways between them to follow")
      case _: StackOverflowError => lose("columns were left out: the query is nested too deeply")
      case NonFatal(error) => lose(s"columns were left out: ${Columns.reason(error)}")
      case error: LinkageError => lose(s"columns were left out: ${Columns.reason(error)}")
    }

  private def lose(message: String): ColumnLineage = {
    losses += message
    ColumnLineage(Nil, Map.empty)
  }

  private def origins(root: LogicalPlan, ref: Ref): Origins = {
    val region = regions.of(root)
    val known = region.knownOf(ref)
    if (known != null) known
    else {
      // A recursive query refers to itself: what it adds is already being looked for.
      region.know(ref, ColumnOrigins.none)
      val producer = region.producers.get(ref.id)
      val found = if (producer == null) ColumnOrigins.none else surviving(produced(producer, ref))
      region.know(ref, found)
      found
    }
  }

  private def surviving(body: => Origins): Origins =
    try body
    catch {
      case spent: ControlThrowable => throw spent
      case NonFatal(error) => unknown(s"a part of the query could not be followed: ${Columns.reason(error)}")
      case error: LinkageError => unknown(s"a part of the query could not be followed: ${Columns.reason(error)}")
    }

  private def unknown(message: String): Origins = {
    losses += message
    ColumnOrigins.none
  }

  private def produced(producer: Producer, ref: Ref): Origins = producer match {
    case Computed(attribute: Attribute, root) => origins(root, Ref(attribute.exprId.id, ref.path))
    case Computed(alias: Alias, root) if alias.child.isInstanceOf[Attribute] =>
      origins(root, Ref(alias.child.asInstanceOf[Attribute].exprId.id, ref.path))
    case Computed(expression, root) => sum(expressions.uses(expression, root, ref.path, Kind.Identity), root)
    case placed: Placed => fromNode(placed, ref)
  }

  private def fromNode(placed: Placed, ref: Ref): Origins = placed.node match {
    case n: Union => fromAll(n.children, placed.position, ref.path)
    case n: Expand =>
      val parts = n.projections.map(_.apply(placed.position)).distinct
      all(parts)(part => sum(expressions.uses(part, n.child, ref.path, Kind.Identity), n.child))
    case n: Generate => sum(expressions.generated(n.generator, placed, ref.path), placed.root)
    case n: CTERelationRef => defined(n.cteId, placed.position, ref.path)
    case n: LateralJoin => inside(placed.root)(at(n.right.plan, placed.position, ref.path))
    case n: InMemoryRelation => all(Inputs.cached(n))(at(_, placed.position, ref.path))
    case n: LogicalRDD => fromRdd(ref)
    case n: DeserializeToObject => sum(expressions.uses(n.deserializer, n.child, Nil, Kind.Transformation), n.child)
    case n if n.children.isEmpty => fromLeaf(n, placed, ref)
    case n => fromOther(n, placed, ref)
  }

  private def fromAll(inputs: Seq[LogicalPlan], position: Int, path: List[String]): Origins =
    all(inputs)(at(_, position, path))

  private def at(plan: LogicalPlan, position: Int, path: List[String]): Origins = {
    val ids = regions.outputOf(plan)
    if (position < ids.length) origins(plan, Ref(ids(position), path)) else ColumnOrigins.none
  }

  private def defined(id: Long, position: Int, path: List[String]): Origins =
    regions.definition(id).map(at(_, position, path)).getOrElse(ColumnOrigins.none)

  private def fromRdd(ref: Ref): Origins = foreign.get(ref.id) match {
    case Some(plan) => origins(plan, ref)
    case None => unknown("rows came from an RDD, behind which columns cannot be followed")
  }

  private def fromLeaf(node: LogicalPlan, placed: Placed, ref: Ref): Origins =
    if (placed.attribute.metadata.contains(Leaves.HiddenKey)) ColumnOrigins.none
    else dataset(node) match {
      case Some(id) => Map(Column(id, (placed.attribute.name :: ref.path).mkString(".")) -> Columns.asIs)
      case None if Reflect.simpleName(node) == "UnionLoopRef" =>
        all(regions.anchorOf(node).toSeq)(at(_, placed.position, ref.path))
      case None => ColumnOrigins.none
    }

  private def dataset(node: LogicalPlan): Option[DatasetId] = {
    val known = datasets.get(node)
    if (known != null) known
    else {
      val found = datasetOf(node)
      datasets.put(node, found)
      found
    }
  }

  /** A node we know nothing about: what it hands on is followed, what it makes is made from all that it is given. */
  private def fromOther(node: LogicalPlan, placed: Placed, ref: Ref): Origins = {
    val name = Reflect.simpleName(node)
    if (name == "UnionLoop") fromAll(node.children, placed.position, ref.path)
    else if (name == "MergeRows") fromMerged(node, placed, ref)
    else node.children.find(child => regions.of(child).producers.containsKey(ref.id)) match {
      case Some(child) => origins(child, ref)
      case None => all(node.children)(everything)
    }
  }

  private def fromMerged(node: LogicalPlan, placed: Placed, ref: Ref): Origins = {
    val child = node.children.head
    all(ColumnChanges.merged(node, placed.position)) { case (part, kind) =>
      val path = if (kind.direct) ref.path else Nil
      sum(expressions.uses(part, child, path, kind), child)
    }
  }

  private def everything(plan: LogicalPlan): Origins =
    all(regions.outputOf(plan).toSeq)(id => through(Columns.mixed, origins(plan, Ref(id))))

  private def sum(uses: Expressions#Uses, root: LogicalPlan): Origins = {
    val direct = all(uses.columns) { case (use, way) =>
      through(way, if (use.outer) fromOuter(use.ref) else origins(root, use.ref))
    }
    ColumnOrigins.merge(direct, all(uses.queries)(nested(_, root)))
  }

  private def nested(query: Nested, root: LogicalPlan): Origins = inside(root) {
    val values = if (query.valued) all(regions.outputOf(query.plan).toSeq)(id => origins(query.plan, Ref(id)))
    else ColumnOrigins.none
    through(query.way, ColumnOrigins.merge(values, deciders(query.plan)))
  }

  private def inside[A](root: LogicalPlan)(body: => A): A = {
    val before = scopes
    scopes = root :: before
    try body
    finally scopes = before
  }

  private def fromOuter(ref: Ref): Origins = {
    val before = scopes
    val around = before.dropWhile(root => !regions.of(root).producers.containsKey(ref.id))
    try around.headOption.map { root =>
      scopes = around.tail
      origins(root, ref)
    }.getOrElse(ColumnOrigins.none)
    finally scopes = before
  }

  /** The columns that decide which rows there are, and in what order, anywhere below `start`. */
  private def deciders(start: LogicalPlan): Origins = {
    val seen = new IdentityHashMap[LogicalPlan, Region]
    val waiting = new java.util.ArrayDeque[LogicalPlan]
    var found = ColumnOrigins.none
    waiting.push(start)
    while (!waiting.isEmpty) {
      val root = waiting.pop()
      if (!seen.containsKey(root)) {
        val region = regions.of(root)
        seen.put(root, region)
        found = ColumnOrigins.merge(found, decided(region))
        region.frontier.foreach(node => below(node).foreach(waiting.push))
      }
    }
    found
  }

  private def decided(region: Region): Origins = {
    val own = all(region.deciders) { case (condition, kind) => within(Seq(region.root), condition, kind) }
    ColumnOrigins.merge(own, all(region.frontier)(node => surviving(decidedBy(node, region.root))))
  }

  private def decidedBy(node: LogicalPlan, root: LogicalPlan): Origins = node match {
    case n: Aggregate => all(n.groupingExpressions)(within(Seq(n.child), _, Kind.GroupBy))
    case n: LateralJoin => inside(root)(deciders(n.right.plan))
    case n @ (_: Intersect | _: Except) =>
      val right = n.children.last
      all(regions.outputOf(right).toSeq)(id => through(Columns.compared, origins(right, Ref(id))))
    case _: Project | _: Union | _: Expand => ColumnOrigins.none
    case n if Reflect.simpleName(n) == "MergeRows" =>
      all(ColumnChanges.insertedWhen(n))(within(n.children, _, Kind.Filter))
    case n => all(Columns.groupingOf(n))(key => all(n.children)(child => within(Seq(child), key, Kind.GroupBy)))
  }

  private def below(node: LogicalPlan): Seq[LogicalPlan] = node match {
    case _: LateralJoin => Nil
    case n @ (_: Intersect | _: Except) => n.children.drop(1)
    case n: CTERelationRef => regions.definition(n.cteId).toSeq
    case n: InMemoryRelation => Inputs.cached(n)
    case n: LogicalRDD => regions.outputOf(n).toSeq.flatMap(id => foreign.get(id))
    case n => n.children
  }

  private def within(roots: Seq[LogicalPlan], expression: Expression, kind: Kind): Origins =
    surviving(all(roots)(root => sum(expressions.uses(expression, root, Nil, kind), root)))

  private def through(way: Way, inner: Origins): Origins = {
    budget.spend(inner.size)
    ColumnOrigins.through(way, inner)
  }

  private def all[A](parts: Iterable[A])(each: A => Origins): Origins =
    parts.foldLeft(ColumnOrigins.none) { (found, part) =>
      val more = each(part)
      budget.spend(math.min(found.size, more.size) + 1)
      ColumnOrigins.merge(found, more)
    }
}

private object Columns {
  private val asIs = List(Way.plain)
  private val mixed = new Way(Kind.Transformation, None)
  private val compared = new Way(Kind.Filter, None)

  private def reason(error: Throwable): String = error.getClass.getSimpleName

  private def groupingOf(node: LogicalPlan): Seq[Expression] =
    Reflect.firstMember(node, "groupingAttributes", "groupingExprs", "keys") match {
      case Some(keys: Seq[_]) => keys.collect { case key: Expression => key }
      case _ => Nil
    }
}
