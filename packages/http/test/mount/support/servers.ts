import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import express from "express"
import fastify from "fastify"
import { Hono } from "hono"
import { fetchHandler, type MountOptions, nodeHandler } from "@kiln/http/mount"
import { listenerOf } from "./listenerOf.ts"
import type { MountedEngine } from "./MountedEngine.ts"

/** The servers people have: each answers `GET /hello` by itself and has kiln under `/api/kiln`. */

export const publicUrl = "https://app.example/api/kiln"
export type SharedOptions = Omit<MountOptions<unknown>, "authenticate" | "publicUrl"> & {
  readonly authenticate?: (
    credentials: string | undefined,
  ) => ReturnType<NonNullable<MountOptions<never>["authenticate"]>>
}

type Mount = (engine: MountedEngine["engine"], options?: SharedOptions) => Promise<RequestListener>

const forNode = ({ authenticate, ...options }: SharedOptions = {}) => ({
  publicUrl,
  ...options,
  ...(authenticate && {
    authenticate: (request: IncomingMessage) => authenticate(request.headers.authorization),
  }),
})
const forFetch = ({ authenticate, ...options }: SharedOptions = {}) => ({
  publicUrl,
  ...options,
  ...(authenticate && {
    authenticate: (request: Request) => authenticate(request.headers.get("authorization") ?? undefined),
  }),
})

const inExpress: Mount = async (engine, options) =>
  express()
    .use(await nodeHandler(engine, forNode(options)))
    .use(express.json())
    .get("/hello", (_, response) => void response.send("hello"))

/** Express takes the path off `url` then. */
const inExpressRouter: Mount = async (engine, options) =>
  express()
    .use("/api", express.Router().use("/kiln", await nodeHandler(engine, forNode(options))))
    .get("/hello", (_, response) => void response.send("hello"))

const inFastify: Mount = async (engine, options) => {
  const handler = await nodeHandler(engine, forNode(options))
  const app = fastify()
  app.get("/hello", () => "hello")
  await app.register(async (kiln) => {
    // Bodies are kiln's to read, whatever their type.
    kiln.removeAllContentTypeParsers()
    kiln.addContentTypeParser("*", (_, __, done) => done(null))
    kiln.all("/api/kiln/*", (request, reply) => {
      reply.hijack()
      handler(request.raw, reply.raw)
    })
  })
  await app.ready()
  return (request, response) => app.routing(request, response)
}

const inHono: Mount = async (engine, options) => {
  const handler = await fetchHandler(engine, forFetch(options))
  const app = new Hono().get("/hello", (c) => c.text("hello")).all("/api/kiln/*", (c) => handler(c.req.raw))
  return listenerOf(async (request) => app.fetch(request))
}

const inNode: Mount = async (engine, options) => {
  const handler = await nodeHandler(engine, forNode(options))
  return (request, response) => handler(request, response, () => response.end("hello"))
}

/** A route handler `app/api/kiln/[...path]/route.ts`: one export for each method, called with a request and its params. */
const inNextStyle: Mount = async (engine, options) => {
  const handler = await fetchHandler(engine, forFetch(options))
  const route: Readonly<
    Record<string, (request: Request, context: { readonly params: Promise<object> }) => Promise<Response>>
  > = {
    GET: handler,
    HEAD: handler,
    POST: handler,
    PUT: handler,
    DELETE: handler,
    OPTIONS: handler,
  }
  return listenerOf(async (request) => {
    const { pathname } = new URL(request.url)
    if (pathname === "/hello") return new Response("hello")
    const path = pathname.split("/").slice(3)
    return (
      route[request.method]?.(request, { params: Promise.resolve({ path }) }) ?? new Response(null, { status: 405 })
    )
  })
}

export const mounts: ReadonlyArray<readonly [name: string, mount: Mount]> = [
  ["express", inExpress],
  ["a router of express", inExpressRouter],
  ["fastify", inFastify],
  ["hono", inHono],
  ["node:http", inNode],
  ["a Next.js route handler", inNextStyle],
]

/** A server on a free port. */
export const listen = async (listener: RequestListener): Promise<{ readonly port: number } & AsyncDisposable> => {
  const server: Server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  return {
    port: (server.address() as AddressInfo).port,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
