import { attached, inEngine } from "./inEngine.ts"
import { mountFetch } from "./mountFetch.ts"
import type { FetchHandler, FetchMountOptions, MountedEngine } from "./MountOptions.ts"

/**
 * The HTTP service of an engine as a web-standard handler: for Hono (`c.req.raw`), Next.js route handlers, Bun and Deno. What
 * is not under the prefix is answered with 404.
 *
 * It ends with the engine: requests are answered with 503 then. Close the server first. Rejects with `HttpSettingInvalid`
 * (`setting`, `problem`) for options that cannot be used.
 */
export const fetchHandler = (engine: MountedEngine, options: FetchMountOptions): Promise<FetchHandler> =>
  inEngine(engine, attached(mountFetch(options)))
