package headgate.spark.plan

/** What an action writes. Reading it, one of its partitions, or the table that it is a partition of, is no input. */
private[plan] final class Written(ids: Set[DatasetId]) {

  private val tables = ids.flatMap(Written.tablesOf)

  def contains(id: DatasetId): Boolean = ids(id) || tables(id) || Written.tablesOf(id).exists(ids)
}

private object Written {

  /** The folders around a path, as far up as its last parts are those of partitions: `key=value`. */
  private def tablesOf(id: DatasetId): Iterator[DatasetId] =
    Iterator.iterate(parentOf(id))(_.flatMap(parentOf)).takeWhile(_.nonEmpty).flatMap(_.iterator)

  private def parentOf(id: DatasetId): Option[DatasetId] = {
    val cut = id.name.lastIndexOf('/')
    val isPartition = id.name.indexOf('=', cut + 1) > cut + 1
    if (isPartition) Some(id.copy(name = if (cut > 0) id.name.substring(0, cut) else "/")) else None
  }
}
