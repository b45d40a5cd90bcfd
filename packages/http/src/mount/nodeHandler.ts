import { attached, inEngine } from "./inEngine.ts"
import { mountNode } from "./mountNode.ts"
import type { MountedEngine, NodeHandler, NodeMountOptions } from "./MountOptions.ts"

/**
 * The HTTP service of an engine as a handler for Express, Connect, Fastify (with `request.raw` and `reply.raw`) and Node's own
 * server. With `next`, what is not kiln's goes on to it; without, it is answered with 404. Mount it before body parsers: a body
 * that was read by another is lost, and the request is answered with 500.
 *
 * It ends with the engine: requests are answered with 503 then. Close the server first. Rejects with `HttpSettingInvalid`
 * (`setting`, `problem`) for options that cannot be used.
 */
export const nodeHandler = (engine: MountedEngine, options: NodeMountOptions): Promise<NodeHandler> =>
  inEngine(engine, attached(mountNode(options)))
