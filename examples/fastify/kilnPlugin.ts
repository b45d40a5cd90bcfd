import { type MountedEngine, nodeHandler } from "@kiln/http/mount"
import type { FastifyPluginAsync } from "fastify"

export interface KilnPluginOptions {
  readonly engine: MountedEngine
  /** Where clients reach the plugin: its prefix at the end. */
  readonly publicUrl: string
}

/** kiln under the prefix that the plugin is registered with. */
export const kilnPlugin: FastifyPluginAsync<KilnPluginOptions> = async (scope, { engine, publicUrl }) => {
  const handler = await nodeHandler(engine, { publicUrl })
  // kiln reads the bodies of its requests itself. The rest of the app keeps its parsers: a plugin has its own.
  scope.removeAllContentTypeParsers()
  scope.addContentTypeParser("*", (_request, _payload, done) => done(null))
  scope.all("/*", (request, reply) => {
    // The answer is kiln's.
    reply.hijack()
    handler(request.raw, reply.raw)
  })
}
