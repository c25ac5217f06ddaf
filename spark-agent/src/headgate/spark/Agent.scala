package headgate.spark

import java.util.{Map => JavaMap}
import java.util.concurrent.CopyOnWriteArrayList

import scala.util.Try

import org.apache.spark.SparkContext
import org.apache.spark.headgate.Bus

import headgate.spark.listener.Guard

/** Doors for the driver's own program: attach to a session that runs already, and see events sent now. */
object Agent {
  private val listeners = new CopyOnWriteArrayList[HeadgateListener]

  private[spark] def register(listener: HeadgateListener): Unit = listeners.add(listener)

  private[spark] def forget(listener: HeadgateListener): Unit = listeners.remove(listener)

  /** Watch a context from now on; false when it is watched already or nothing says where to send. */
  def attach(context: SparkContext, settings: JavaMap[String, String]): Boolean = {
    val conf = context.getConf
    settings.forEach((key, value) => conf.set(key, value))
    if (listeners.isEmpty) watch(context, new HeadgateListener(conf)) else false
  }

  def detach(context: SparkContext): Unit = listeners.forEach { listener =>
    Guard.run(context.removeSparkListener(listener))
    listener.detach()
  }

  /** Wait until all that has happened so far was sent or given up. */
  def flush(timeoutMs: Long): Boolean = {
    val deadline = System.currentTimeMillis + timeoutMs
    Try(Bus.awaitEmpty(timeoutMs))
    var done = true
    listeners.forEach(listener => done &= listener.flush(math.max(0, deadline - System.currentTimeMillis)))
    done
  }

  private def watch(context: SparkContext, listener: HeadgateListener): Boolean = {
    if (listener.isActive) {
      // Such a listener has missed the start; it is told what it would have heard.
      listener.onApplicationStart(Bus.applicationStart(context))
      context.addSparkListener(listener)
    }
    listener.isActive
  }
}
