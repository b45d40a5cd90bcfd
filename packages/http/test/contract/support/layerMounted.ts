import { createServer, type RequestListener, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { HttpService, type HttpSettings, mountFetch, mountNode } from "@kiln/http"
import { Effect, Layer } from "effect"
import express from "express"
import { listenerOf } from "../../mount/support/listenerOf.ts"
import { type MountName, mountPrefix, publicUrl } from "./Service.ts"

/** A service in a server that is not its own. */
export const layerMounted = (name: MountName, settings: HttpSettings) => {
  const { rateLimits, signingKeys, trustedProxies } = settings
  const options = {
    publicUrl,
    prefix: mountPrefix,
    rateLimits,
    trustedProxies,
    pages: true,
    ...(signingKeys === undefined ? {} : { signingKeys }),
  }
  const listener =
    name === "express"
      ? Effect.map(mountNode(options), (handler): RequestListener => express().disable("x-powered-by").use(handler))
      : Effect.map(mountFetch({ ...options, remoteAddress: () => "127.0.0.1" }), listenerOf)
  return Layer.effect(
    HttpService,
    Effect.gen(function* () {
      const server = createServer({ requestTimeout: 0 }, yield* listener)
      const port = yield* Effect.acquireRelease(listen(server), () => close(server))
      return { port, url: publicUrl, reload: () => Effect.die("a mount has no settings to reload") }
    }),
  )
}

const listen = (server: Server) =>
  Effect.callback<number>((resume) => {
    server.listen(0, "127.0.0.1", () => resume(Effect.succeed((server.address() as AddressInfo).port)))
  })

const close = (server: Server) =>
  Effect.callback<void>((resume) => {
    server.close(() => resume(Effect.void))
    server.closeAllConnections()
  })
