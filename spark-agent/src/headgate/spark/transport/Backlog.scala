package headgate.spark.transport

import java.util.ArrayDeque
import scala.collection.mutable.ArrayBuffer

/** An event and its place among all that were ever taken. */
private[transport] final class Numbered(val number: Long, val bytes: Array[Byte])

/** Events that wait, oldest first, bounded by number and bytes; its owner takes care of threads. */
private[transport] final class Backlog(maxEvents: Int, maxBytes: Long) {
  type Events = Seq[Numbered]

  private val waiting = new ArrayDeque[Numbered]
  private var bytes = 0L

  def size: Int = waiting.size

  def isEmpty: Boolean = waiting.isEmpty

  def oldest: Option[Numbered] = Option(waiting.peekFirst)

  /** Take one more; what had to go for it comes back, oldest first. */
  def add(event: Numbered): Events = {
    waiting.addLast(event)
    bytes += event.bytes.length
    overflow()
  }

  /** Put events back that were taken, as the oldest; what had to go comes back. */
  def putBack(events: Events): Events = {
    events.reverseIterator.foreach { event =>
      waiting.addFirst(event)
      bytes += event.bytes.length
    }
    overflow()
  }

  /** The oldest ones up to a number and size, at least one if there is any. */
  def take(events: Int, size: Long): Events = {
    val taken = ArrayBuffer.empty[Numbered]
    var left = size
    while (taken.size < events && !waiting.isEmpty && (taken.isEmpty || waiting.peekFirst.bytes.length <= left)) {
      left -= waiting.peekFirst.bytes.length
      taken += pop()
    }
    taken.toList
  }

  def takeAll(): Events = take(Int.MaxValue, Long.MaxValue)

  private def overflow(): Events = {
    if (waiting.size <= maxEvents && bytes <= maxBytes) Nil
    else {
      val gone = ArrayBuffer.empty[Numbered]
      while (waiting.size > maxEvents || bytes > maxBytes) gone += pop()
      gone.toList
    }
  }

  private def pop(): Numbered = {
    val event = waiting.pollFirst()
    bytes -= event.bytes.length
    event
  }
}
