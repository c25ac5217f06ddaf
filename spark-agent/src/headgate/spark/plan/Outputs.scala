package headgate.spark.plan

import scala.collection.mutable

/** One output for each dataset, however many executions of an action have a part in it. */
object Outputs {

  def merged(outputs: Seq[Output]): Seq[Output] = {
    val byId = mutable.LinkedHashMap.empty[DatasetId, Output]
    val places = placesOf(outputs)
    outputs.foreach { one =>
      val id = places.getOrElse(one.dataset.id, one.dataset.id)
      byId.put(id, byId.get(id).map(together(_, one)).getOrElse(one))
    }
    byId.values.toSeq
  }

  // A table being made has no place yet: one execution knows it by its name alone, another by where it came to lie.
  def placesOf(outputs: Seq[Output]): Map[DatasetId, DatasetId] =
    outputs.map(_.dataset).flatMap(one => one.symlinks.map(idOf(_) -> one.id)).toMap

  private def idOf(link: Symlink): DatasetId = DatasetId(link.namespace, link.name)

  /** The outer command knows the table, the inner one only its path. */
  private def together(outer: Output, inner: Output): Output = {
    val (a, b) = (outer.dataset, inner.dataset)
    val isPlaceOfName = b.symlinks.exists(idOf(_) == a.id)
    val dataset = a.copy(
      id = if (isPlaceOfName) b.id else a.id,
      schema = if (a.schema.nonEmpty) a.schema else b.schema,
      symlinks = (a.symlinks ++ b.symlinks).distinct,
      datasetType = if (b.symlinks.nonEmpty) b.datasetType else a.datasetType.orElse(b.datasetType),
      catalog = a.catalog.orElse(b.catalog),
      sourceUri = a.sourceUri.orElse(b.sourceUri),
      storage = a.storage.orElse(b.storage))
    Output(
      dataset,
      outer.lifecycle.orElse(inner.lifecycle),
      outer.previous.orElse(inner.previous),
      outer.isStaged || inner.isStaged)
  }
}
