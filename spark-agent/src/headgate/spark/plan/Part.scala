package headgate.spark.plan

import org.apache.spark.sql.catalyst.plans.logical.{Command, LogicalPlan}

/** One execution with its analysed plan and what its commands do. */
final class Part(val execution: Execution, val plan: LogicalPlan, settings: ReadSettings, continues: Long => Boolean) {

  val site = new Site(execution.query, settings)
  val tables = new Tables(site)
  val leaves = new Leaves(site, tables, continues)
  private val commands = new Commands(site, tables, leaves)

  lazy val deeds: Seq[Deed] = Part.topCommands(plan).flatMap(deedOf)

  def deedOf(node: LogicalPlan): Option[Deed] = Reflect.guarded(commands.of(node)).flatten

  def readsNothing: Boolean = deeds.exists(_.readsNothing)

  def isStreaming: Boolean = Part.StreamWrites.exists(Reflect.simpleName(plan).startsWith)

  def inputs(own: Set[DatasetId]): Inputs = new Inputs(leaves, tables, isIgnored(new Written(own)))

  private def isIgnored(own: Written)(id: DatasetId): Boolean =
    own.contains(id) || Locations.isInternal(id) || site.checkpoints.exists(Locations.isWithin(id, _))
}

object Part {
  private val StreamWrites = Seq("WriteToMicroBatch", "WriteToContinuous")

  /** A WITH clause and a multi-insert put their commands below a node of another kind. */
  def topCommands(plan: LogicalPlan): Seq[LogicalPlan] = plan match {
    case command: Command => Seq(command)
    case _ if StreamWrites.exists(Reflect.simpleName(plan).startsWith) => Seq(plan)
    case _ => plan.children.filter(_.isInstanceOf[Command])
  }

  /** The queries of the commands on top of a plan, or the plan itself. */
  def queriesIn(plan: LogicalPlan): Seq[LogicalPlan] = topCommands(plan) match {
    case Seq() => Seq(plan)
    case commands => commands.flatMap(node => Inputs.partsOf(node))
  }
}
