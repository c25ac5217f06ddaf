package headgate.spark.plan

import scala.util.control.NonFatal

/** Reads members of classes that are not in every Spark, or not on the class path at all; what is missing is None. */
object Reflect {

  def member(target: Any, name: String): Option[Any] =
    if (target == null) None
    else guarded(invoke(target.asInstanceOf[AnyRef], name)).orElse(guarded(field(target.asInstanceOf[AnyRef], name)))

  /** The first of several names that one class or another gives the same thing. */
  def firstMember(target: Any, names: String*): Option[Any] =
    names.iterator.map(member(target, _)).collectFirst { case Some(value) => value }

  /** Follows a path of members, looking into every Option on the way. */
  def walk(target: Any, names: String*): Option[Any] =
    names.foldLeft(Option(target))((at, name) => at.flatMap(member(_, name)).flatMap(unwrapped))

  def text(target: Any, names: String*): Option[String] = walk(target, names: _*).map(_.toString).filter(_.nonEmpty)

  def isA(target: Any, className: String): Boolean = target != null && ancestors(target.getClass).exists(_ == className)

  def simpleName(target: Any): String = {
    val name = target.getClass.getName
    name.substring(name.lastIndexOf('.') + 1).stripSuffix("$")
  }

  /** Runs what may meet a class or member of another version; anything but a fatal error becomes None. */
  def guarded[A](body: => A): Option[A] =
    try Option(body)
    catch {
      case NonFatal(_) => None
      case _: LinkageError => None
    }

  private def unwrapped(value: Any): Option[Any] = value match {
    case inner: Option[_] => inner
    case other => Option(other)
  }

  private def invoke(target: AnyRef, name: String): Any = {
    val method = target.getClass.getMethod(name)
    // A public member of a private class is refused without it.
    method.setAccessible(true)
    method.invoke(target)
  }

  private def field(target: AnyRef, name: String): Any = {
    val fields = classes(target.getClass).flatMap(_.getDeclaredFields.iterator)
    fields.find(f => f.getName == name || f.getName.endsWith("$$" + name)).map { found =>
      found.setAccessible(true)
      found.get(target)
    }.orNull
  }

  private def classes(start: Class[_]): Iterator[Class[_]] =
    Iterator.iterate[Class[_]](start)(_.getSuperclass).takeWhile(_ != null)

  private def ancestors(start: Class[_]): Iterator[String] =
    classes(start).flatMap(one => Iterator(one.getName) ++ one.getInterfaces.iterator.map(_.getName))
}
