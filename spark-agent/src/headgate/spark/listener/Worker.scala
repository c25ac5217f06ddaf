package headgate.spark.listener

import java.util.concurrent.{CountDownLatch, LinkedBlockingQueue, TimeUnit}
import java.util.concurrent.atomic.{AtomicBoolean, AtomicLong}

import scala.util.Try

import org.apache.spark.SparkConf

import headgate.spark.Config
import headgate.spark.transport.{Counts, Transport, Transports}

/** The agent's own thread: the one that an application's state belongs to. */
final class Worker(config: Config, sparkConf: SparkConf, transport: Transport) {
  import Worker._

  private val messages = new LinkedBlockingQueue[Application => Unit](MaxMessages)
  private val application = new Application(config, sparkConf, transport)
  private val lost = new AtomicLong
  private val ended = new AtomicBoolean(false)
  // Plans nest as deep as users nest them, and are walked by recursion.
  private val thread = new Thread(null, () => work(), "headgate-agent", StackBytes)
  thread.setDaemon(true)
  thread.start()

  /** Never waits: what does not fit is lost, and counted. */
  def submit(message: Application => Unit): Unit = if (!messages.offer(message)) lost.incrementAndGet()

  def flush(timeoutMs: Long): Boolean = {
    val deadline = System.currentTimeMillis + timeoutMs
    val worked = new CountDownLatch(1)
    submit(_ => worked.countDown())
    worked.await(timeoutMs, TimeUnit.MILLISECONDS) && transport.flush(deadline - System.currentTimeMillis)
  }

  /** The application's end; takes no longer than the user allows. */
  def end(at: Long, exitCode: Option[Int]): Unit = if (ended.compareAndSet(false, true)) {
    val deadline = System.currentTimeMillis + patienceMs
    try drain(at, exitCode, deadline)
    catch { case _: InterruptedException => Thread.currentThread.interrupt() }
    tell(transport.close(left(deadline)))
    thread.interrupt()
  }

  private def drain(at: Long, exitCode: Option[Int], deadline: Long): Unit = {
    val worked = new CountDownLatch(1)
    val last = { application: Application =>
      Guard.run(application.ended(at, exitCode))
      worked.countDown()
    }
    if (messages.offer(last, left(deadline), TimeUnit.MILLISECONDS)) worked.await(left(deadline), TimeUnit.MILLISECONDS)
  }

  private def left(deadline: Long): Long = math.max(0, deadline - System.currentTimeMillis)

  /** In the JVM's shutdown Spark has half a minute for all that it still has to do. */
  private def patienceMs: Long =
    if (isShuttingDown) math.min(config.flushTimeoutMs, ShutdownMs).toLong else config.flushTimeoutMs.toLong

  private def isShuttingDown: Boolean = {
    val hook = new Thread()
    Try {
      Runtime.getRuntime.addShutdownHook(hook)
      Runtime.getRuntime.removeShutdownHook(hook)
    }.isFailure
  }

  private def tell(counts: Counts): Unit = {
    val dropped = counts.dropped + lost.get
    val text = s"Headgate events: ${counts.sent} sent, ${counts.retried} retried, " +
      s"${counts.spooled} spooled, $dropped dropped"
    val spool = config.spoolDir.getOrElse("")
    if (counts.spooled > 0) Guard.warn(s"$text; `headgate replay $spool` sends the spooled ones")
    else if (dropped > 0) Guard.warn(text)
    else Guard.info(text)
  }

  private def work(): Unit =
    try while (true) next()
    catch { case _: InterruptedException => }

  private def next(): Unit = {
    val wait = application.dueIn(System.currentTimeMillis)
    val message = wait.fold(messages.take())(ms => messages.poll(ms, TimeUnit.MILLISECONDS))
    if (message != null) Guard.run(message(application))
    if (wait.isDefined) Guard.run(application.tellOfLongActions(System.currentTimeMillis))
  }
}

object Worker {
  private val MaxMessages = 20000
  private val StackBytes = 64L << 20
  private val ShutdownMs = 15000

  /** None when nothing says where to send. */
  def start(conf: SparkConf): Option[Worker] = {
    val config = Config.read(key => Option(conf.get(key, null)), key => Option(System.getenv(key)))
    if (config.warnings.nonEmpty) Guard.warn(config.warnings.mkString("; "))
    if (config.isActive) Some(new Worker(config, conf, Transports.of(config))) else None
  }
}
