import type { IncomingMessage } from "node:http"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { StoreUnavailable } from "@kiln/core/domain"
import type { AskCaller } from "../server/callerAuthentication.ts"
import type { HttpSettingInvalid } from "../server/HttpSettingInvalid.ts"
import type { NodeHandler } from "../server/NodeExchange.ts"
import { nodeListener } from "../server/nodeListener.ts"
import { NodeSource } from "../server/NodeSource.ts"
import type { MountedEngine, NodeMountOptions } from "./MountOptions.ts"
import { type MountNeeds, mountService } from "./mountService.ts"
import { attached, inEngine } from "./inEngine.ts"

/**
 * Creates the HTTP service as a handler for Node's server and frameworks built on it, until the scope closes. Without
 * `next`, requests outside the prefix get 404. Mount it before body parsers.
 */
export const mountNode = Effect.fnUntraced(function* (
  options: NodeMountOptions,
): Effect.fn.Return<NodeHandler, HttpSettingInvalid | StoreUnavailable, MountNeeds | Scope.Scope> {
  const { app, requests } = yield* mountService(options, askCaller(options), "nodeHandler()")
  return yield* nodeListener(app, requests)
})

const askCaller = ({ authenticate }: NodeMountOptions): AskCaller | undefined =>
  authenticate &&
  (({ source }) => {
    if (source instanceof NodeSource) return authenticate(source.message as IncomingMessage)
    throw new TypeError("expected a request from Node's HTTP server")
  })

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
