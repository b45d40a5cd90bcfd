import * as Schema from "effect/Schema"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as OpenApi from "effect/http-api/OpenApi"
import { audioJobs, imageJobs, type JobBody, type JobFamily } from "../routes/JobFamily.ts"
import type { JobRoute, RoutedKind } from "../routes/jobRoute.ts"
import type { WireRequest, WireUpload } from "../routes/wireTypes.ts"
import {
  accepted,
  creationErrors,
  eraseErrors,
  idempotencyHeader,
  jobIdParam,
  lastEventId,
  polled,
  pollErrors,
  signalErrors,
  signalParams,
  streamErrors,
  uploadUseCodes,
} from "./endpoints.ts"
import { briefState, createdJob, fullState, SendSignal, SentSignal, StreamEvent } from "./JobBodies.ts"
import type { OutputOf } from "./jobSchemas.ts"

const withArticle = (noun: string): string => `${/^[aeiou]/i.test(noun) ? "an" : "a"} ${noun}`
const spoken = ({ name }: RoutedKind): string => name.replaceAll("_", " ")

type Creation<Noun extends string, Type extends string> = JobRoute<RoutedKind & { readonly name: Type }, Noun>

const creation = <const Noun extends string, Request, Type extends string>(
  { kind, noun }: Creation<Noun, Type>,
  payload: Schema.Codec<Request>,
) => ({ headers: idempotencyHeader, payload, success: accepted(createdJob(kind.name, `${noun}Job`)) })

const idOf = <const Noun extends string>({ noun }: { readonly noun: Noun }) => `create${noun}` as const

const createPlain = <const Noun extends string, Request, Type extends string>(
  route: Creation<Noun, Type>,
  payload: Schema.Codec<Request>,
) =>
  HttpApiEndpoint.post(idOf(route), route.path as `/${string}`, {
    ...creation(route, payload),
    error: creationErrors(),
  })

const createWithUpload = <const Noun extends string, Request, Type extends string>(
  route: Creation<Noun, Type>,
  payload: Schema.Codec<Request>,
) =>
  HttpApiEndpoint.post(idOf(route), route.path as `/${string}`, {
    ...creation(route, payload),
    error: creationErrors(...uploadUseCodes),
  })

const create = (route: JobRoute, payload: Schema.Codec<unknown>, description: string | undefined) =>
  (route.upload === undefined ? createPlain(route, payload) : createWithUpload(route, payload)).annotateMerge(
    OpenApi.annotations({
      summary: `Create ${withArticle(spoken(route.kind))} job`,
      ...(description !== undefined && { description }),
    }),
  )

/** Whether jobs of a family are of custom kinds, which report progress and receive signals. */
export const isCustom = ({ group }: JobFamily): boolean => group !== audioJobs.group && group !== imageJobs.group

const state = <Output, Body extends JobBody>(
  family: JobFamily<string, string, Body>,
  output: Schema.Codec<Output>,
  example: object,
) =>
  (family.body === "full"
    ? fullState(output, `${family.noun}JobState`, isCustom(family), example)
    : briefState(output, `${family.noun}JobState`, isCustom(family))) as StateSchema<Output, Body>

type StateSchema<Output, Body extends JobBody> = Body extends "brief"
  ? ReturnType<typeof briefState<Output>>
  : ReturnType<typeof fullState<Output>>

const spokenFamily = ({ noun }: JobFamily): string => noun.replaceAll(/(?<=.)([A-Z])/g, " $1").toLowerCase()

const poll = <const Noun extends string, Output, Body extends JobBody>(
  family: JobFamily<string, Noun, Body>,
  output: Schema.Codec<Output>,
  example: object,
) =>
  HttpApiEndpoint.get(`poll${family.noun}Job` as const, family.poll as `/${string}`, {
    params: jobIdParam,
    success: polled(state<Output, Body>(family, output, example)),
    error: pollErrors,
  }).annotateMerge(
    OpenApi.annotations({
      summary: `Poll ${withArticle(spokenFamily(family))} job`,
      description:
        "Poll every 2 seconds until `status` is `done` or `failed`. Only the key that created the job can read it.",
    }),
  )

const erase = <const Noun extends string>(family: JobFamily<string, Noun>) =>
  HttpApiEndpoint.delete(`erase${family.noun}JobData` as const, `${family.poll}/data` as `/${string}`, {
    params: jobIdParam,
    success: HttpApiSchema.NoContent,
    error: eraseErrors,
  }).annotateMerge(
    OpenApi.annotations({
      summary: `Delete the retained data of a finished ${spokenFamily(family)} job`,
      description: `Permanently deletes texts and files, and invalidates their URLs. ${family.body === "full" ? "Status, codes and billing are" : "The status is"} kept. Repeating the request returns the same response.`,
    }),
  )

const signal = <const Noun extends string>(family: JobFamily<string, Noun>) =>
  HttpApiEndpoint.post(`signal${family.noun}Job` as const, `${family.poll}/signals/:name` as `/${string}`, {
    params: signalParams,
    payload: SendSignal,
    success: SentSignal,
    error: signalErrors,
  }).annotateMerge(
    OpenApi.annotations({
      summary: `Send a signal to ${withArticle(spokenFamily(family))} job`,
      description:
        "For a job that waits for it, now or later. The first value of each name counts. Repeating the request returns the same response. Only the key that created the job can signal it.",
    }),
  )

const stream = <const Noun extends string>(family: JobFamily<string, Noun>) =>
  HttpApiEndpoint.get(`stream${family.noun}Job` as const, `${family.poll}/stream` as `/${string}`, {
    params: jobIdParam,
    headers: { "last-event-id": Schema.optionalKey(lastEventId) },
    success: HttpApiSchema.StreamSse({ data: StreamEvent }),
    error: streamErrors,
  }).annotateMerge(
    OpenApi.annotations({
      summary: `Stream what ${withArticle(spokenFamily(family))} job emits`,
      description:
        "Server-sent events: each chunk that the job has and each further one, in order, with its index as the `id`; an event `end` once the job is `done` or `failed`. `Last-Event-ID` goes on after a chunk. Only the key that created the job can read it.",
    }),
  )

/** The endpoints of a family of jobs: one for each of its kinds, one to poll, one to erase, and for custom kinds one to signal and one to stream. */
export const jobEndpoints = { create, poll, erase, signal, stream }

type CreateOf<R> = R extends JobRoute
  ? [WireUpload<R>] extends [never]
    ? ReturnType<typeof createPlain<R["noun"], WireRequest<R>, R["kind"]["name"]>>
    : ReturnType<typeof createWithUpload<R["noun"], WireRequest<R>, R["kind"]["name"]>>
  : never
type FamilyEndpoints<R extends JobRoute, F> =
  F extends JobFamily<string, infer Noun, infer Body>
    ?
        | ReturnType<typeof poll<Noun, OutputOf<R>, Body>>
        | ReturnType<typeof erase<Noun>>
        | (Noun extends (typeof audioJobs | typeof imageJobs)["noun"]
            ? never
            : ReturnType<typeof signal<Noun>> | ReturnType<typeof stream<Noun>>)
    : never

/** The types of a family's endpoints, from the routes of its kinds. */
export type JobEndpoints<R extends JobRoute> = CreateOf<R> | FamilyEndpoints<R, R["family"]>
