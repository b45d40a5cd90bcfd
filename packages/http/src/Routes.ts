import * as HttpApi from "effect/http-api/HttpApi"
import type { JobFamily } from "@kiln/client"
import { isCustom, KilnApi } from "@kiln/client/api"
import { healthz, type Readiness, readyz } from "./Health.ts"
import { createJob } from "./handlers/createJob.ts"
import { createUpload } from "./handlers/createUpload.ts"
import { eraseJobData, pollJob } from "./handlers/pollJob.ts"
import type { HandlerContext } from "./handlers/HandlerContext.ts"
import { preflight, receiveFile } from "./handlers/receiveFile.ts"
import { signalJob } from "./handlers/signalJob.ts"
import { streamJob } from "./handlers/streamJob.ts"
import { sendFile } from "./handlers/sendFile.ts"
import type { Handler, Route } from "./server/app.ts"

export interface RouteOptions extends HandlerContext {
  readonly readiness: Readiness["Service"]
}

/** The endpoints that belong to no kind of job, so that a new one does not compile without a handler. */
const makeHandlers = (options: RouteOptions) => ({
  createUpload: createUpload(options),
  putFile: receiveFile(options),
  getFile: sendFile(options),
  headFile: sendFile(options),
  healthz,
  readyz: readyz(options.readiness),
})
type SharedEndpoint =
  | keyof (typeof KilnApi)["groups"]["signedUrls"]["endpoints"]
  | keyof (typeof KilnApi)["groups"]["health"]["endpoints"]
  | "createUpload"

/** Each kind is created on its own path, each family polled and erased on one. */
const jobRoutes = (options: RouteOptions): ReadonlyArray<Route> => {
  const offered = [...options.offers.values()]
  // All kinds of a family have one key scope.
  const families = new Map<string, { readonly family: JobFamily; readonly keyScope: string }>(
    offered.map(({ family, kind: { keyScope } }) => [family.group, { family, keyScope }]),
  )
  return [
    ...offered.map((offer) => ({ method: "POST", path: offer.route.path, handle: createJob(options, offer) })),
    ...[...families.values()].flatMap(({ family, keyScope }) => [
      { method: "GET", path: family.poll, handle: pollJob(options, family, keyScope) },
      { method: "DELETE", path: `${family.poll}/data`, handle: eraseJobData(options, family, keyScope) },
      ...(isCustom(family)
        ? [
            { method: "POST", path: `${family.poll}/signals/:name`, handle: signalJob(options, family, keyScope) },
            { method: "GET", path: `${family.poll}/stream`, handle: streamJob(options, family, keyScope) },
          ]
        : []),
    ]),
  ]
}

/**
 * The routes of what is offered, and those that the declaration has besides. That requests are checked by handlers of our own,
 * and not by `HttpApiBuilder`, is because the order of checks is part of the public contract, and because polling and creating
 * are hot (see the decisions).
 */
export const makeRoutes = (options: RouteOptions): ReadonlyArray<Route> => {
  const handlers: Readonly<Record<SharedEndpoint, Handler>> = makeHandlers(options)
  const routes: Array<Route> = [...jobRoutes(options)]
  HttpApi.reflect(KilnApi, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, group }) => {
      const handle = (handlers as Readonly<Record<string, Handler | undefined>>)[endpoint.identifier]
      if (handle === undefined) return
      const route = { method: endpoint.method, path: endpoint.path, handle }
      if (group.identifier === "signedUrls") routes.push({ ...route, cors: true })
      else if (group.identifier === "health")
        routes.push({ ...route, whileStopping: true }, { ...route, method: "HEAD", whileStopping: true })
      else routes.push(route)
    },
  })
  return [...routes, ...preflights(routes)]
}

/** Browsers ask before they send something to another origin. */
const preflights = (routes: ReadonlyArray<Route>): ReadonlyArray<Route> => {
  const open = Map.groupBy(
    routes.filter((route) => route.cors === true),
    (route) => route.path,
  )
  return [...open].map(([path, ways]) => ({
    method: "OPTIONS",
    path,
    handle: preflight(ways.map((way) => way.method).join(", ")),
    cors: true,
  }))
}
