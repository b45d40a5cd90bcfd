/** The rejection of a call of an engine that has been stopped. Like the abort reason of a signal, its name is `AbortError`. */
export class EngineClosed extends Error {
  override readonly name = "AbortError"
  readonly code = "engine_closed"
  /** The same call never succeeds: create another engine. */
  readonly retryable = false

  constructor() {
    super("the engine is closed")
  }
}
