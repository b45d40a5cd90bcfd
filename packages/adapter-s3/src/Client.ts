import type { IncomingHttpHeaders, IncomingMessage } from "node:http"
import { BlobUnavailable } from "@kiln/core/domain"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { openExchange, readText } from "./exchange.ts"
import { requireCredentials, type S3Credentials, type S3Place } from "./S3BlobOptions.ts"
import { failureOf, isExpired, S3Failure } from "./S3Failure.ts"
import { presigned, type S3Request, signed } from "./sign.ts"
import { rootOf } from "./xml.ts"

export interface S3Answer {
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

/** Sends signed requests, and repeats those that fail for reasons that pass. */
export interface S3Client {
  readonly place: S3Place
  /** Sends a request and reads the response. Fails for any status but 2xx. */
  readonly send: (request: S3Request) => Effect.Effect<S3Answer, S3Failure>
  /** Sends a request, without a retry, whose response body the caller reads or destroys. */
  readonly stream: (request: S3Request) => Effect.Effect<IncomingMessage, S3Failure>
  readonly presign: (request: S3Request, expiresInSeconds: number) => Effect.Effect<string, S3Failure>
}

/** Tries of one request in all. */
const MOST_TRIES = 5
/** No try starts later than this after the first. */
const RETRY_FOR_MS = 60_000
const CREDENTIALS_FOR_MS = 60_000

const backoff = Schedule.jittered(Schedule.exponential("100 millis"))

/** Repeats an effect as long as it fails with a retryable failure of S3, with exponential backoff. */
export const retrying = <A, E>(attempt: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.flatMap(Clock.currentTimeMillis, (startedAt) =>
    Effect.retry(attempt, {
      times: MOST_TRIES - 1,
      schedule: backoff,
      while: (error) =>
        Effect.map(
          Clock.currentTimeMillis,
          (now) => error instanceof S3Failure && error.retryable && now - startedAt < RETRY_FOR_MS,
        ),
    }),
  )

/** Reports failures of S3 under the name of the port's operation. */
export const reporting =
  (operation: string) =>
  <A, E, R>(effect: Effect.Effect<A, E | S3Failure, R>): Effect.Effect<A, Exclude<E, S3Failure> | BlobUnavailable, R> =>
    Effect.mapError(effect, (error) =>
      error instanceof S3Failure ? new BlobUnavailable({ operation, cause: error }) : (error as Exclude<E, S3Failure>),
    )

export const openClient = (place: S3Place): Effect.Effect<S3Client, never, Scope.Scope> =>
  Effect.map(openExchange(place.timeoutMs), (exchange) => {
    const credentials = cachedCredentials(place)

    const attempt = (request: S3Request): Effect.Effect<IncomingMessage, S3Failure> =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const key = yield* credentials.current(now)
        const { headers, url } = yield* Effect.promise(() => signed(place, request, key, now))
        const response = yield* exchange({ method: request.method, url, headers, body: request.body })
        const { statusCode: status = 0 } = response
        if (status >= 200 && status < 300) return response
        const text = yield* readText(url.host, response)
        const failure = failureOf({ status, text, region: headerOf(response.headers, "x-amz-bucket-region") })
        if (isExpired(failure)) credentials.forget()
        return yield* Effect.fail(failure)
      })

    return {
      place,
      stream: attempt,
      send: (request) =>
        retrying(
          Effect.flatMap(attempt(request), (response) =>
            Effect.flatMap(readText(place.url.host, response), (text) => {
              const failure = failureIn(text, request.result)
              return failure === undefined ? Effect.succeed({ headers: response.headers, text }) : Effect.fail(failure)
            }),
          ),
        ),
      presign: (request, expiresInSeconds) =>
        Effect.gen(function* () {
          const now = yield* Clock.currentTimeMillis
          const key = yield* credentials.current(now)
          return yield* Effect.promise(() => presigned(place, request, expiresInSeconds, key, now))
        }),
    }
  })

/**
 * Reads the failure from the body of a response with a status of 2xx. For a request that takes long, S3 sends the status and
 * then white space until it knows the outcome, so an error or nothing at all may follow.
 */
const failureIn = (text: string, result: string | undefined): S3Failure | undefined => {
  const root = text === "" ? undefined : rootOf(text)
  if (root === "Error") return failureOf({ status: 200, text, region: undefined })
  if (result === undefined || root === result) return undefined
  return new S3Failure(`S3 responded 200 without a ${result}`, { status: 200, retryable: true })
}

/** Reads a header that occurs once. */
export const headerOf = (headers: IncomingHttpHeaders, name: string): string | undefined => {
  const value = headers[name]
  return Array.isArray(value) ? value[0] : value
}

/** Asks for credentials once a minute, so that rotated files and session tokens take effect. */
const cachedCredentials = (place: S3Place) => {
  let cached: { readonly at: number; readonly credentials: S3Credentials } | undefined
  return {
    current: (now: number): Effect.Effect<S3Credentials, S3Failure> =>
      cached !== undefined && Math.abs(now - cached.at) < CREDENTIALS_FOR_MS
        ? Effect.succeed(cached.credentials)
        : Effect.tryPromise({
            try: async () => {
              const credentials = requireCredentials(await place.credentials())
              cached = { at: now, credentials }
              return credentials
            },
            catch: (cause) =>
              new S3Failure(`no credentials: ${cause instanceof Error ? cause.message : String(cause)}`, {
                retryable: false,
                cause,
              }),
          }),
    /** The next try asks for newer ones. */
    forget: (): void => {
      cached = undefined
    },
  }
}
