import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as OpenApi from "effect/http-api/OpenApi"
import type { JobKind } from "@kiln/core/kinds"
import { audioJobs, type JobFamily } from "../routes/JobFamily.ts"
import type { JobRoute } from "../routes/jobRoute.ts"
import { Authentication } from "./Authentication.ts"
import { describeResponses } from "./describeResponses.ts"
import { uploadErrors } from "./endpoints.ts"
import { HealthApi } from "./HealthApi.ts"
import { isCustom, type JobEndpoints, jobEndpoints } from "./jobEndpoints.ts"
import { outputOf, requestOf } from "./jobSchemas.ts"
import { SignedUrlsApi } from "./SignedUrlsApi.ts"
import { CreateUpload, Upload } from "./UploadBodies.ts"

const createUpload = HttpApiEndpoint.post("createUpload", "/v1/audio/uploads", {
  payload: CreateUpload,
  success: Upload.pipe(HttpApiSchema.status(201)),
  error: uploadErrors,
}).annotateMerge(
  OpenApi.annotations({
    summary: "Create a signed upload URL",
    description: "Send the file to `upload_url` with PUT, then create a job with the upload's `id` as `upload_id`.",
  }),
)

type EndpointsOf<R extends JobRoute, Group extends string> =
  | (Group extends "audio" ? typeof createUpload : never)
  | JobEndpoints<Extract<R, { readonly family: { readonly group: Group } }>>
type GroupOf<R extends JobRoute, Group extends string> = Group extends unknown
  ? HttpApiGroup.HttpApiGroup<Group, HttpApiEndpoint.AddMiddleware<EndpointsOf<R, Group>, Authentication>>
  : never

/** The declaration of an API, from the routes of its kinds. */
export type ApiOf<Routes extends ReadonlyArray<JobRoute>> = HttpApi.HttpApi<
  "kiln",
  GroupOf<Routes[number], Routes[number]["family"]["group"] | "audio"> | typeof SignedUrlsApi | typeof HealthApi
>

const scopesOf = (routes: ReadonlyArray<JobRoute>): ReadonlyArray<string> => [
  ...new Set(routes.flatMap(({ kind }) => (kind as Partial<JobKind>).keyScope ?? [])),
]

/** Declares one family: its endpoints as a group, with annotations for the OpenAPI document. */
const declareFamily = (family: JobFamily, routes: ReadonlyArray<JobRoute>) => {
  const requests = routes.map((route) => ({ route, ...requestOf(route) }))
  const output = outputOf(family.noun, routes)
  const isAudio = family.group === audioJobs.group
  const scopes = isAudio ? ["audio.create"] : scopesOf(routes)
  const about = [family.description, ...scopes.map((scope) => `Scope \`${scope}\`.`)].filter(
    (text) => text !== undefined,
  )
  const endpoints: ReadonlyArray<HttpApiEndpoint.Constraint> = [
    ...(isAudio ? [createUpload] : []),
    ...requests.map(({ route, schema }) =>
      jobEndpoints.create(route, schema, (route.kind as Partial<JobKind>).description),
    ),
    ...(routes.length === 0
      ? []
      : [jobEndpoints.poll(family, output.schema, output.example), jobEndpoints.erase(family)]),
    ...(routes.length > 0 && isCustom(family) ? [jobEndpoints.signal(family), jobEndpoints.stream(family)] : []),
  ]
  const group = HttpApiGroup.make(family.group)
    .add(...(endpoints as readonly [typeof createUpload]))
    .middleware(Authentication)
    .annotateMerge(OpenApi.annotations({ title: family.title, description: about.join(" ") }))
  const components = [output, ...requests].flatMap((described) => Object.entries(described.components))
  return { group, components }
}

/**
 * Declares the API of these kinds as data, from which routes, the OpenAPI document and clients are derived. Kinds of one family form
 * one group.
 */
export const declareApi = <const Routes extends ReadonlyArray<JobRoute>>(
  routes: Routes,
  serverUrl = "/",
): ApiOf<Routes> => {
  const families = new Map<string, JobFamily>(
    [audioJobs, ...routes.map(({ family }) => family)].map((one) => [one.group, one]),
  )
  const declared = [...families.values()].map((family) =>
    declareFamily(
      family,
      routes.filter((route) => route.family.group === family.group),
    ),
  )
  const components = Object.fromEntries(declared.flatMap((one) => one.components))
  const [first, ...others] = declared.map(({ group }) => group)
  if (first === undefined) throw new Error("the API has no endpoint groups, but uploads are always declared")
  return HttpApi.make("kiln")
    .add(first, ...others, SignedUrlsApi, HealthApi)
    .annotateMerge(
      OpenApi.annotations({
        title: "kiln",
        version: "1",
        description:
          "Asynchronous audio and image jobs: create a job with POST, then poll it with GET until its status is `done` or `failed`. All errors have the same format: `error.code` is for programs and `error.message` for people.",
        license: { name: "MIT", identifier: "MIT" },
        servers: [{ url: serverUrl }],
        transform: (spec) => describeResponses(spec, components),
      }),
    ) as object as ApiOf<Routes>
}
