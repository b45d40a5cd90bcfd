import { createRequire } from "node:module"
import type * as Undici from "undici"

/** Where Node's own fetch looks up what it sends requests by: the proxies of `NODE_USE_ENV_PROXY`, or what a program has set. */
const nodesDispatcher = Symbol.for("undici.globalDispatcher.1")

/**
 * Loads undici, and leaves Node's own fetch as it was: where the undici within Node is older than this one's way of marking
 * that place as taken, loading it puts an agent of its own there, after which no request goes by a proxy any more. Loaded
 * at one go, and not by `import()`, so that no other request falls between. `Request` is touched first, since Node sets the
 * place up with the first use of any part of fetch.
 */
export const loadUndici = (): typeof Undici => {
  void new Request("http://localhost/")
  const before: unknown = Reflect.get(globalThis, nodesDispatcher)
  const undici = createRequire(import.meta.url)("undici") as typeof Undici
  Reflect.set(globalThis, nodesDispatcher, before)
  return undici
}
