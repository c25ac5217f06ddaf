package headgate.spark.plan

import org.apache.spark.sql.catalyst.plans.logical.{Command, LogicalPlan}

/** One execution with its analysed plan and what its commands do. */
final class Part(val execution: Execution, val plan: LogicalPlan, settings: ReadSettings, continues: Long => Boolean) {

  val site = new Site(execution.query, settings)
  val tables = new Tables(site)
  val leaves = new Leaves(site, tables, continues)
  private val commands = Part.commands(new Site(execution.query, settings.copy(targets = Nil)), continues)

  lazy val deeds: Seq[Deed] = Part.topCommands(plan).flatMap(deedOf)

  def deedOf(node: LogicalPlan): Option[Deed] = Reflect.guarded(commands.of(node)).flatten.map(published)

  // Commands name things by where they lie: only then is a write to staging another one than a write to its target.
  private def published(deed: Deed): Deed =
    deed.copy(outputs = deed.outputs.map(published), inputs = deed.inputs.map(published))

  private def published(output: Output): Output = site.targetOf(output.dataset.id).fold(output) { id =>
    output.copy(dataset = output.dataset.copy(id = id), isStaged = true)
  }

  private def published(input: Dataset): Dataset = site.targetOf(input.id).fold(input) { id =>
    input.copy(id = id, sourceUri = Some(Locations.uri(id)))
  }

  def readsNothing: Boolean = deeds.exists(_.readsNothing)

  def isStreaming: Boolean = Part.StreamWrites.exists(Reflect.simpleName(plan).startsWith)

  def inputs(own: Set[DatasetId]): Inputs = new Inputs(leaves, tables, isIgnored(new Written(own)))

  private def isIgnored(own: Written)(id: DatasetId): Boolean =
    own.contains(id) || Locations.isInternal(id) || site.checkpoints.exists(Locations.isWithin(id, _))
}

object Part {
  private val StreamWrites = Seq("WriteToMicroBatch", "WriteToContinuous")

  private def commands(site: Site, continues: Long => Boolean): Commands = {
    val tables = new Tables(site)
    new Commands(site, tables, new Leaves(site, tables, continues))
  }

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
