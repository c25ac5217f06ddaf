package headgate.spark.transport

import headgate.spark.Config

/** Chooses how events leave: to a server, to a folder, both, or not at all. */
object Transports {
  private val MaxBytes = 64L * 1024 * 1024

  def of(config: Config): Transport =
    if (!config.isActive) Nowhere
    else {
      val warnings = new Warnings
      val spool = config.spoolDir.map(new Spool(_, warnings))
      new Sender(config.url.map(new Http(_, config)), spool, new Backlog(config.queueSize, MaxBytes), warnings)
    }

  private object Nowhere extends Transport {
    def send(event: Array[Byte]): Unit = ()
    def flush(timeoutMs: Long): Boolean = true
    def close(timeoutMs: Long): Counts = Counts(0, 0, 0, 0)
  }
}
