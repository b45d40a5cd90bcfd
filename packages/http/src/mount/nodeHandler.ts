import { attached, inEngine } from "./inEngine.ts"
import { mountNode } from "./mountNode.ts"
import type { MountedEngine, NodeHandler, NodeMountOptions } from "./MountOptions.ts"

/**
 * Returns the HTTP service of an engine as a handler for Express, Connect, Fastify (with `request.raw` and `reply.raw`) and
 * Node's own server. Requests outside the prefix are passed to `next`, or get 404 without it. Mount it before body parsers: a
 * body that something else has read is lost, and the request gets 500.
 *
 * After the engine has stopped, requests get 503; close the server first. Rejects with `HttpSettingInvalid` (`setting`,
 * `problem`) for invalid options.
 */
export const nodeHandler = (engine: MountedEngine, options: NodeMountOptions): Promise<NodeHandler> =>
  inEngine(engine, attached(mountNode(options)))
