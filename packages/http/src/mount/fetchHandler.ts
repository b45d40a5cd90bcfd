import { attached, inEngine } from "./inEngine.ts"
import { mountFetch } from "./mountFetch.ts"
import type { FetchHandler, FetchMountOptions, MountedEngine } from "./MountOptions.ts"

/**
 * Returns the HTTP service of an engine as a web-standard handler: for Hono (`c.req.raw`), Next.js route handlers, Bun and
 * Deno. Requests outside the prefix get 404.
 *
 * After the engine has stopped, requests get 503; close the server first. Rejects with `HttpSettingInvalid` (`setting`,
 * `problem`) for invalid options.
 */
export const fetchHandler = (engine: MountedEngine, options: FetchMountOptions): Promise<FetchHandler> =>
  inEngine(engine, attached(mountFetch(options)))
