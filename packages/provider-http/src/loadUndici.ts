import { createRequire } from "node:module"
import type * as Undici from "undici"

/** The global under which Node's own fetch finds its dispatcher: the proxies of `NODE_USE_ENV_PROXY`, or one set by the program. */
const nodesDispatcher = Symbol.for("undici.globalDispatcher.1")

/**
 * Loads undici and leaves Node's own fetch unchanged. If Node's built-in undici is too old to mark the global dispatcher
 * as set, loading this undici replaces the dispatcher, and requests would bypass the proxy. Loaded synchronously rather
 * than with `import()`, so that no request runs in between. `Request` is accessed first, because Node sets its dispatcher
 * on the first use of fetch.
 */
export const loadUndici = (): typeof Undici => {
  void new Request("http://localhost/")
  const before: unknown = Reflect.get(globalThis, nodesDispatcher)
  const undici = createRequire(import.meta.url)("undici") as typeof Undici
  Reflect.set(globalThis, nodesDispatcher, before)
  return undici
}
