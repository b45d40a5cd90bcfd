import { HttpApi } from "effect/http-api"
import { KilnApi } from "@kiln/client/api"
import type { Readiness } from "./Health.ts"
import { createJob } from "./handlers/createJob.ts"
import { createUpload } from "./handlers/createUpload.ts"
import { eraseJobData } from "./handlers/eraseJobData.ts"
import type { HandlerContext } from "./handlers/HandlerContext.ts"
import { audioFamily, imageFamily, type JobFamily } from "./handlers/JobFamily.ts"
import type { Offer } from "./handlers/offerKinds.ts"
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

/** Creates jobs of a built-in kind, where the engine knows it. */
const createBuiltIn = (options: RouteOptions, kind: string): Handler | undefined => {
  const offer = options.offers.get(kind)
  return offer && createJob(options, offer)
}

/** The handlers: an entry for each declared endpoint is required, so that a new endpoint does not compile without one. */
const makeHandlers = (options: RouteOptions): Readonly<Record<EndpointName, Handler | undefined>> => ({
  createUpload: createUpload(options),
  createTranscription: createBuiltIn(options, "transcription"),
  createSpeech: createBuiltIn(options, "speech_synthesis"),
  createVoiceTurn: createBuiltIn(options, "voice_turn"),
  pollAudioJob: pollJob(options, audioFamily),
  eraseAudioJobData: eraseJobData(options, audioFamily),
  createImage: createBuiltIn(options, "image_generation"),
  pollImageJob: pollJob(options, imageFamily),
  eraseImageJobData: eraseJobData(options, imageFamily),
  putFile: receiveFile(options),
  getFile: sendFile(options),
  headFile: sendFile(options),
  healthz,
  readyz: readyz(options.readiness, options.isStopping),
})

/** The routes of kinds that are not declared: each its own to create, each family's to poll and erase. */
const ownRoutes = (options: RouteOptions): ReadonlyArray<Route> => {
  const own = [...options.offers.values()].filter(isOwn)
  const families = new Set<JobFamily>(own.map(({ family }) => family))
  // Those are declared.
  families.delete(audioFamily)
  families.delete(imageFamily)
  return [
    ...own.map((offer) => ({ method: "POST", path: offer.path, handle: createJob(options, offer) })),
    ...[...families].flatMap((family) => [
      { method: "GET", path: family.poll, handle: pollJob(options, family) },
      { method: "DELETE", path: `${family.poll}/data`, handle: eraseJobData(options, family) },
    ]),
  ]
}

const isOwn = (offer: Offer): offer is Offer & { readonly path: string } => offer.path !== undefined

/**
 * The routes, read from the declaration. What they take and answer is declared there too; that requests are checked by
 * handlers of our own, and not by `HttpApiBuilder`, is because the order of checks is part of the public contract, and
 * because polling and creating are hot (see the decisions).
 */
export const makeRoutes = (options: RouteOptions): ReadonlyArray<Route> => {
  const handlers: Readonly<Record<string, Handler | undefined>> = makeHandlers(options)
  const routes: Array<Route> = [...ownRoutes(options)]
  HttpApi.reflect(KilnApi, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, group }) => {
      const handle = handlers[endpoint.identifier]
      // A kind the engine does not know is not offered.
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
