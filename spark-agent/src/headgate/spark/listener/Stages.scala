package headgate.spark.listener

import org.apache.spark.executor.TaskMetrics
import org.apache.spark.scheduler.{SparkListenerTaskEnd, StageInfo, TaskInfo, TaskLocality}

import headgate.spark.facet.StageCost

/** Tasks of one stage attempt that Spark's own stage totals do not count: failures, and how near the data was. */
final class TaskTally {
  var failed = 0L
  var processLocal = 0L
  var nodeLocal = 0L
  var rackLocal = 0L
  var any = 0L

  def add(task: TaskInfo): Unit = {
    if (task.failed) failed += 1
    task.taskLocality match {
      case TaskLocality.PROCESS_LOCAL => processLocal += 1
      case TaskLocality.NODE_LOCAL => nodeLocal += 1
      case TaskLocality.RACK_LOCAL => rackLocal += 1
      case _ => any += 1
    }
  }
}

/** Tallies of the stages that run now. */
final class TaskTallies {
  // Tasks may end after their stage did; their tallies would stay for ever.
  private val running = new Bounded[(Int, Int), TaskTally](10000)

  def add(event: SparkListenerTaskEnd): Unit = Option(event.taskInfo).foreach { task =>
    running.computeIfAbsent((event.stageId, event.stageAttemptId), _ => new TaskTally).add(task)
  }

  def take(stage: StageInfo): TaskTally =
    Option(running.remove((stage.stageId, stage.attemptNumber))).getOrElse(new TaskTally)
}

object Stages {
  def cost(stage: StageInfo, tally: TaskTally): StageCost = StageCost(
    stage.stageId,
    stage.attemptNumber,
    stage.name,
    stage.submissionTime,
    stage.completionTime,
    duration(stage) ++ counted(stage, tally) ++ Option(stage.taskMetrics).map(measured).getOrElse(Nil))

  private def duration(stage: StageInfo): Seq[(String, Long)] =
    for (from <- stage.submissionTime.toSeq; to <- stage.completionTime) yield "duration_ms" -> (to - from)

  private def counted(stage: StageInfo, tally: TaskTally): Seq[(String, Long)] = Seq(
    "num_tasks" -> stage.numTasks.toLong,
    "failed_tasks" -> tally.failed,
    "process_local_tasks" -> tally.processLocal,
    "node_local_tasks" -> tally.nodeLocal,
    "rack_local_tasks" -> tally.rackLocal,
    "any_locality_tasks" -> tally.any)

  private def measured(m: TaskMetrics): Seq[(String, Long)] = Seq(
    "input_bytes" -> m.inputMetrics.bytesRead,
    "input_records" -> m.inputMetrics.recordsRead,
    "output_bytes" -> m.outputMetrics.bytesWritten,
    "output_records" -> m.outputMetrics.recordsWritten,
    "executor_run_time_ms" -> m.executorRunTime,
    "executor_cpu_time_ns" -> m.executorCpuTime,
    "jvm_gc_time_ms" -> m.jvmGCTime,
    "executor_deserialize_time_ms" -> m.executorDeserializeTime,
    "executor_deserialize_cpu_time_ns" -> m.executorDeserializeCpuTime,
    "result_serialization_time_ms" -> m.resultSerializationTime,
    "result_size_bytes" -> m.resultSize,
    "memory_bytes_spilled" -> m.memoryBytesSpilled,
    "disk_bytes_spilled" -> m.diskBytesSpilled,
    "peak_execution_memory" -> m.peakExecutionMemory) ++ shuffled(m)

  private def shuffled(m: TaskMetrics): Seq[(String, Long)] = {
    val read = m.shuffleReadMetrics
    val write = m.shuffleWriteMetrics
    Seq(
      "shuffle_read_bytes" -> read.totalBytesRead,
      "shuffle_read_records" -> read.recordsRead,
      "shuffle_remote_bytes_read" -> read.remoteBytesRead,
      "shuffle_local_bytes_read" -> read.localBytesRead,
      "shuffle_remote_bytes_read_to_disk" -> read.remoteBytesReadToDisk,
      "shuffle_fetch_wait_time_ms" -> read.fetchWaitTime,
      "shuffle_remote_blocks_fetched" -> read.remoteBlocksFetched,
      "shuffle_local_blocks_fetched" -> read.localBlocksFetched,
      "shuffle_write_bytes" -> write.bytesWritten,
      "shuffle_write_records" -> write.recordsWritten,
      "shuffle_write_time_ns" -> write.writeTime)
  }
}
