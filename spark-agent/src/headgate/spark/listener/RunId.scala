package headgate.spark.listener

import java.util.UUID
import java.util.concurrent.ThreadLocalRandom

/** UUIDs of version 7: they sort by the time at which the run began. */
object RunId {
  def at(millis: Long): UUID = {
    val random = ThreadLocalRandom.current
    val high = (millis << 16) | 0x7000L | (random.nextInt & 0x0fffL)
    val low = (random.nextLong & 0x3fffffffffffffffL) | 0x8000000000000000L
    new UUID(high, low)
  }
}
