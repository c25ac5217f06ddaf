package headgate.spark.plan

/** One way in which a column arrives; its text is made only for ways that are kept to the end. */
private[plan] final class Way(val kind: Kind, said: => Option[String]) {
  lazy val text: Option[String] = said

  def masked: Way = if (kind.masking) this else new Way(kind.copy(masking = true), text)

  def step: Step = Step(kind, text)
}

private[plan] object Way {
  val plain = new Way(Kind.Identity, None)
}

/** Where a column comes from: source columns, each with the ways it arrives; and how ways add up along a path. */
private[plan] object ColumnOrigins {

  /** A list holds at most one way of each kind: the one nearest to the target that was met first. */
  type Origins = Map[Column, List[Way]]

  val none: Origins = Map.empty

  /** All of `inner` as it looks from behind one more step. */
  def through(outer: Way, inner: Origins): Origins =
    if ((outer eq Way.plain) || inner.isEmpty) inner
    else inner.map { case (column, ways) => (column, behind(outer, ways)) }

  /** Entries of the smaller side are put into the larger, so that adding up many small ones stays cheap. */
  def merge(left: Origins, right: Origins): Origins =
    if (left.isEmpty || (left eq right)) right
    else if (right.isEmpty) left
    else if (left.size >= right.size)
      right.foldLeft(left) { case (into, (key, value)) => put(into, key, value, isLater = true) }
    else left.foldLeft(right) { case (into, (key, value)) => put(into, key, value, isLater = false) }

  def steps(origins: Origins): Map[Column, Set[Step]] =
    origins.map { case (column, ways) => (column, ways.iterator.map(_.step).toSet) }

  private def behind(outer: Way, ways: List[Way]): List[Way] = ways match {
    case one :: Nil => compose(outer, one) :: Nil
    case several => distinct(several.map(compose(outer, _)))
  }

  /** What is indirect stays so; of two direct ways the stronger counts, of two alike the one nearer to the target. */
  private def compose(outer: Way, inner: Way): Way =
    if (!outer.kind.direct) outer
    else if (!inner.kind.direct) inner
    else {
      val stronger = if (rank(inner.kind) > rank(outer.kind)) inner else outer
      if (outer.kind.masking || inner.kind.masking) stronger.masked else stronger
    }

  private def put(into: Origins, column: Column, ways: List[Way], isLater: Boolean): Origins = into.get(column) match {
    case None => into.updated(column, ways)
    case Some(same) if same eq ways => into
    case Some(known) => into.updated(column, distinct(if (isLater) known ++ ways else ways ++ known))
  }

  private def distinct(ways: List[Way]): List[Way] =
    ways.foldLeft(List.empty[Way])((kept, way) => if (kept.exists(_.kind == way.kind)) kept else way :: kept).reverse

  private def rank(kind: Kind): Int = kind.subtype match {
    case "IDENTITY" => 0
    case "TRANSFORMATION" => 1
    case _ => 2
  }
}
