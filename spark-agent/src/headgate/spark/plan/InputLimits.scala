package headgate.spark.plan

/** How much one action says of its inputs: an event is one message, in which the outputs must find room too. */
private[plan] object InputLimits {

  val Datasets = 5000
  val Fields = 50000

  val TooMany: String = s"there are more than $Datasets inputs, of which the rest was left out"
  val TooWide: String = s"the inputs have more than $Fields columns together: some were sent without a schema"

  /** The inputs within both limits, and what had to be left out, in words. */
  def of(inputs: Seq[Dataset]): (Seq[Dataset], Seq[String]) = {
    val kept = inputs.take(Datasets)
    var left = Fields
    val sent = kept.map { one =>
      val size = fieldsIn(one.schema, left)
      if (size > left) one.copy(schema = Nil)
      else {
        left -= size
        one
      }
    }
    val lost = Seq(TooMany).filter(_ => inputs.size > kept.size) ++ Seq(TooWide).filter(_ => sent != kept)
    (sent, lost)
  }

  /** Counts nested fields as well, but not on and on: a number above `enough` is as good as any other. */
  private def fieldsIn(schema: Seq[SchemaField], enough: Int): Int = {
    val fields = schema.iterator
    var count = 0
    while (fields.hasNext && count <= enough) count += 1 + fieldsIn(fields.next().fields, enough - count)
    count
  }
}
