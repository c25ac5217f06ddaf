package headgate.spark.listener

import scala.collection.JavaConverters._

import org.apache.spark.SparkConf
import org.apache.spark.headgate.Bus
import org.apache.spark.sql.execution.QueryExecution
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart

import headgate.spark.{Config, Parent}
import headgate.spark.facet._
import headgate.spark.plan.{ActionFacts, PlanReader, Redaction}
import headgate.spark.transport.Transport

/** One application: which actions it is at, and the events they become. Belongs to the worker's thread. */
final class Application(config: Config, sparkConf: SparkConf, transport: Transport) {
  import Application._

  private var start: Option[Started] = None
  // By root execution; an execution's root; a job's root; a stage's job; and jobs that belong to no execution.
  private val actions = new Bounded[Long, Action](MaxActions)
  private val roots = new Bounded[Long, Long](MaxHeld)
  private val jobs = new Bounded[Int, Long](MaxHeld)
  private val stages = new Bounded[Int, Int](MaxHeld)
  private val rddJobs = new Bounded[Int, RddJob](MaxActions)
  private var lastFailure: Option[(Failure, Long)] = None

  def applicationStarted(name: String, id: String, user: String, at: Long): Unit = {
    val known = if (name == Unnamed) config.application.getOrElse(name) else name
    val run = RunRef(JobName(config.namespace, JobNames.application(known)), RunId.at(at))
    val details = ApplicationDetails(name, sparkConf.get("spark.master", ""), user, None)
    val started = new Started(run, details, new Events(Engine(org.apache.spark.SPARK_VERSION, id)))
    start = Some(started)
    tell(started, "START", at, None)
  }

  def executionStarted(event: SparkListenerSQLExecutionStart, query: Option[QueryExecution]): Unit = {
    val id = event.executionId
    val rootId = event.rootExecutionId.filter(root => actions.containsKey(root)).getOrElse(id)
    roots.put(id, rootId)
    val action = actions.computeIfAbsent(rootId, new Action(_, event.time, event.description, event.details))
    action.wish(id, Wishes.of(event.modifiedConfigs.get))
    query.foreach(action.add(id, _, failed = false))
  }

  def executionEnded(id: Long, at: Long, query: Option[QueryExecution], failure: Option[Failure]): Unit = {
    // What fails while it is planned ends without having begun.
    if (failure.isDefined && !roots.containsKey(id)) {
      roots.put(id, id)
      actions.put(id, new Action(id, at, "", ""))
    }
    for (rootId <- roots.take(id); action <- actions.find(rootId)) {
      query.foreach(action.add(id, _, failure.isDefined))
      if (rootId == id) {
        actions.remove(id)
        finish(action, at, failure)
      }
    }
  }

  def jobStarted(job: JobStart): Unit = {
    job.stageIds.foreach(stages.put(_, job.jobId))
    job.executionId match {
      case Some(id) =>
        for (rootId <- roots.find(id)) {
          if (!job.wishes.isSilent) jobs.put(job.jobId, rootId)
          actions.find(rootId).foreach(_.wishByJob(id, job.wishes))
        }
      case None if !job.wishes.isSilent && !CallSite.isReader(job.callSite) =>
        rddJobs.put(job.jobId, new RddJob(job.at, job.callSite, job.wishes.parent))
      case None =>
    }
  }

  def stageCompleted(cost: StageCost): Unit = stages.take(cost.stageId).foreach { jobId =>
    // A failed attempt is followed by another one of the same stage.
    stages.put(cost.stageId, jobId)
    jobs.find(jobId).flatMap(root => actions.find(root)).foreach(_.add(cost))
    rddJobs.find(jobId).foreach(_.stages += cost)
  }

  def jobEnded(jobId: Int, at: Long, failure: Option[Failure]): Unit = {
    stages.values.removeIf(_ == jobId)
    jobs.remove(jobId)
    for (job <- rddJobs.take(jobId); started <- start) {
      if (!job.isTold) tellRddStart(started, job)
      lastFailure = failure.map(_ -> at)
      tellRddEnd(started, job, if (failure.isDefined) "FAIL" else "COMPLETE", at, failure)
    }
  }

  /** Milliseconds until something has run so long that its START should not wait for its end. */
  def dueIn(now: Long): Option[Long] = {
    val waiting = actions.values.asScala.filter(isUntold).map(_.dueAt) ++
      rddJobs.values.asScala.filterNot(_.isTold).map(_.dueAt)
    if (waiting.isEmpty) None else Some(math.max(1, waiting.min - now))
  }

  def tellOfLongActions(now: Long): Unit = start.foreach { started =>
    for (action <- actions.values.asScala if isUntold(action) && action.dueAt <= now) tellBegun(started, action)
    for (job <- rddJobs.values.asScala if !job.isTold && job.dueAt <= now) tellRddStart(started, job)
  }

  private def tellBegun(started: Started, action: Action): Unit = {
    val facts = Guard.orElse(ActionFacts(action.verb))(
      PlanReader.outline(action.inOrder, action.settings(config.maskLiterals)))
    action.isQuiet = action.isUnclear(facts)
    if (!action.isQuiet) tellStart(started, action, facts, Some(facts.begun))
  }

  def ended(at: Long, exitCode: Option[Int]): Unit = start.foreach { started =>
    // What still waits for its first job waits in vain.
    for (action <- actions.values.asScala if isUntold(action) && action.isLong(at)) tellBegun(started, action)
    val isCut = actions.values.asScala.exists(_.startedAs.isDefined) || rddJobs.values.asScala.exists(_.isTold)
    for (action <- actions.values.asScala; run <- action.startedAs) {
      val (parent, root) = parentsOf(started, action.parent)
      send(started, RunEvent("ABORT", at, run, Some(parent), root, "SQL_JOB", stages = action.costs))
    }
    for (job <- rddJobs.values.asScala if job.isTold) tellRddEnd(started, job, "ABORT", at, None)
    // A Python driver stops its context with 0 however it ends itself: what it did last says more.
    val failure = lastFailure.collect { case (failure, when) if at - when < LastWordsMs => failure }
      .orElse(exitCode.filter(_ != 0).map(code => Failure(s"exit code $code", "")))
    tell(started, if (failure.isDefined) "FAIL" else if (isCut) "ABORT" else "COMPLETE", at, failure)
    start = None
  }

  private def isUntold(action: Action): Boolean = action.startedAs.isEmpty && !action.isQuiet && !action.isSilent

  private def finish(action: Action, at: Long, failure: Option[Failure]): Unit = start.foreach { started =>
    started.learn()
    if (action.isSilent) finishSilently(started, action, at, failure) else finishOpenly(started, action, at, failure)
  }

  // Whoever asks for silence tells of failures itself: this one is not the application's, nor does a success mend what
  // failed before. A START that went out before the wish was heard gets its end, or its run would stay open.
  private def finishSilently(started: Started, action: Action, at: Long, failure: Option[Failure]): Unit =
    action.startedAs.foreach(tellEnd(started, action, ActionFacts(action.verb), at, failure, 0, _))

  private def finishOpenly(started: Started, action: Action, at: Long, failure: Option[Failure]): Unit = {
    val began = System.nanoTime
    val facts = action.measured(Guard.orElse(ActionFacts(action.verb))(
      PlanReader.read(action.inOrder, action.settings(config.maskLiterals))))
    val micros = (System.nanoTime - began) / 1000
    if (failure.isDefined || action.isWorthTelling(facts)) {
      if (action.startedAs.isEmpty) tellStart(started, action, facts, None)
      lastFailure = failure.map(_ -> at)
      action.startedAs.foreach(tellEnd(started, action, facts, at, failure, micros, _))
    }
  }

  private def tellEnd(
      started: Started, action: Action, facts: ActionFacts, at: Long, failure: Option[Failure], micros: Long,
      run: RunRef): Unit = {
    val (parent, root) = parentsOf(started, action.parent)
    val told = if (failure.isDefined) facts.undecided else facts
    send(started, RunEvent(
      if (failure.isDefined) "FAIL" else "COMPLETE", at, run, Some(parent), root, "SQL_JOB", facts.isStreaming,
      failure, action.costs, Some(micros)), Some(told))
  }

  /** A short action's START comes with its end and says no more than that it began. */
  private def tellStart(started: Started, action: Action, named: ActionFacts, told: Option[ActionFacts]): Unit = {
    val run = RunRef(JobName(config.namespace, JobNames.action(started.run.job.name, named)), action.runId)
    action.name(run)
    val (parent, root) = parentsOf(started, action.parent)
    send(started, RunEvent("START", action.startedAt, run, Some(parent), root, "SQL_JOB", named.isStreaming), told)
  }

  private def tellRddStart(started: Started, job: RddJob): Unit = {
    job.isTold = true
    val (parent, root) = parentsOf(started, job.parent)
    send(started, RunEvent("START", job.startedAt, runOf(started, job), Some(parent), root, "RDD_JOB"))
  }

  private def tellRddEnd(
      started: Started, job: RddJob, state: String, at: Long, failure: Option[Failure]): Unit = {
    val (parent, root) = parentsOf(started, job.parent)
    send(started, RunEvent(
      state, at, runOf(started, job), Some(parent), root, "RDD_JOB", failure = failure, stages = job.stages.toList))
  }

  private def runOf(started: Started, job: RddJob): RunRef =
    RunRef(JobName(config.namespace, JobNames.rdd(started.run.job.name, job.callSite)), job.runId)

  private def tell(started: Started, state: String, at: Long, failure: Option[Failure]): Unit = send(started, RunEvent(
    state, at, started.run, above.map(_._1), above.map(_._2), "APPLICATION", failure = failure,
    application = Some(started.details)))

  /** Above an action is the application, or the run that its caller named; the root is the topmost that is known. */
  private def parentsOf(started: Started, named: Option[Parent]): (RunRef, Option[RunRef]) = {
    val parent = named.map(JobNames.reference).getOrElse(started.run)
    (parent, Some(above.map(_._2).getOrElse(started.run)))
  }

  /** The application's own parent and root, as whoever started it told. */
  private lazy val above: Option[(RunRef, RunRef)] = config.parent.map(JobNames.reference).map { parent =>
    (parent, config.rootParent.map(JobNames.reference).getOrElse(parent))
  }

  private def send(started: Started, event: RunEvent, facts: Option[ActionFacts] = None): Unit =
    transport.send(started.events.write(event.copy(failure = event.failure.map(redacted)), facts))

  private def redacted(failure: Failure): Failure = Failure(
    Redaction.text(failure.message, config.maskLiterals).take(MaxMessage),
    Redaction.text(failure.stackTrace, config.maskLiterals).take(MaxTrace))
}

object Application {
  // What PySpark calls an application that was given no name.
  private val Unnamed = "pyspark-shell"
  // A program that goes on for longer after a failure has got over it.
  private val LastWordsMs = 60000L
  private val MaxActions = 1000
  private val MaxMessage = 10000
  private val MaxTrace = 20000
  private val MaxHeld = 100000

  final private class Started(val run: RunRef, var details: ApplicationDetails, val events: Events) {
    private var isAsked = false

    /** Not while the context is being made: whoever asks for it then has to wait. */
    def learn(): Unit = if (!isAsked) {
      isAsked = true
      details = details.copy(uiUrl = Bus.uiUrl)
    }
  }
}
