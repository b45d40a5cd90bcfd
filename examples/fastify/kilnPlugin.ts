import { type MountedEngine, nodeHandler } from "@kiln/http/mount"
import type { FastifyPluginAsync } from "fastify"

export interface KilnPluginOptions {
  readonly engine: MountedEngine
  /** Where clients reach the plugin, including its prefix. */
  readonly publicUrl: string
}

/** Mounts kiln under the plugin's prefix. */
export const kilnPlugin: FastifyPluginAsync<KilnPluginOptions> = async (scope, { engine, publicUrl }) => {
  const handler = await nodeHandler(engine, { publicUrl })
  // kiln reads request bodies itself. Parsers of a plugin do not affect the rest of the app.
  scope.removeAllContentTypeParsers()
  scope.addContentTypeParser("*", (_request, _payload, done) => done(null))
  scope.all("/*", (request, reply) => {
    // kiln sends the response.
    reply.hijack()
    handler(request.raw, reply.raw)
  })
}
