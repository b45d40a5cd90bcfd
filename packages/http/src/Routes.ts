import { HttpApi } from "effect/http-api"
import { KilnApi } from "./api/KilnApi.ts"
import type { Readiness } from "./Health.ts"
import { createJob } from "./handlers/createJob.ts"
import { createUpload } from "./handlers/createUpload.ts"
import { eraseJobData } from "./handlers/eraseJobData.ts"
import type { HandlerContext } from "./handlers/HandlerContext.ts"
import { healthz, readyz } from "./handlers/health.ts"
import { pollJob } from "./handlers/pollJob.ts"
import { preflight, receiveFile } from "./handlers/receiveFile.ts"
import { sendFile } from "./handlers/sendFile.ts"
import type { Handler, Route } from "./server/Router.ts"

export interface RouteOptions extends HandlerContext {
  readonly readiness: Readiness["Service"]
  readonly isStopping: () => boolean
}

type Groups = (typeof KilnApi)["groups"]
/** Every endpoint of the declaration, by name. */
type EndpointName = { readonly [Group in keyof Groups]: keyof Groups[Group]["endpoints"] }[keyof Groups]

/** Who answers: one handler for each declared endpoint, so that a new one does not compile without. */
const makeHandlers = (options: RouteOptions): Readonly<Record<EndpointName, Handler>> => ({
  createUpload: createUpload(options),
  createTranscription: createJob(options, "transcription"),
  createSpeech: createJob(options, "speech_synthesis"),
  createVoiceTurn: createJob(options, "voice_turn"),
  pollAudioJob: pollJob(options, "audio"),
  eraseAudioJobData: eraseJobData(options, "audio"),
  createImage: createJob(options, "image_generation"),
  pollImageJob: pollJob(options, "images"),
  eraseImageJobData: eraseJobData(options, "images"),
  putFile: receiveFile(options),
  getFile: sendFile(options),
  headFile: sendFile(options),
  healthz,
  readyz: readyz(options.readiness, options.isStopping),
})

/**
 * The routes, read from the declaration. What they take and answer is declared there too; that requests are checked by
 * handlers of our own, and not by `HttpApiBuilder`, is because the order of checks is part of the public contract, and
 * because polling and creating are hot (see the decisions).
 */
export const makeRoutes = (options: RouteOptions): ReadonlyArray<Route> => {
  const handlers: Readonly<Record<string, Handler>> = makeHandlers(options)
  const routes: Array<Route> = []
  HttpApi.reflect(KilnApi, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, group }) => {
      const handle = handlers[endpoint.identifier]
      if (handle === undefined) throw new Error(`nobody answers ${endpoint.identifier}`)
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
