package headgate.spark.listener

import java.util.{LinkedHashMap, Map => JavaMap}

/** A map that forgets its eldest: Spark may lose an event that would have cleared an entry. */
final class Bounded[K, V](max: Int) extends LinkedHashMap[K, V] {
  override protected def removeEldestEntry(eldest: JavaMap.Entry[K, V]): Boolean = size > max

  def find(key: K): Option[V] = Option(get(key))

  def take(key: K): Option[V] = Option(remove(key))
}
