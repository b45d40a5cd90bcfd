import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import { TestClock } from "effect/testing"
import { reportingClient } from "../../src/telemetry/otel.ts"

/** Runs a test with a client, and returns the lines of the log. */
const logged = (
  client: HttpClient.HttpClient,
  test: (client: HttpClient.HttpClient) => Effect.Effect<unknown, unknown>,
) => {
  const lines: Array<string> = []
  const keep = Logger.make(({ message }) => void lines.push(String(message)))
  return Effect.as(Effect.provide(Effect.exit(test(reportingClient(client))), Logger.layer([keep])), lines)
}

const url = "http://collector/v1/traces"

it.effect("gives up an export that gets no response, and says so once a minute", () =>
  Effect.gen(function* () {
    const silent = HttpClient.make(() => Effect.never)
    const lines = yield* logged(silent, (client) =>
      Effect.gen(function* () {
        for (const _ of [1, 2, 3, 4, 5, 6, 7]) {
          const asking = yield* Effect.forkChild(Effect.exit(client.post(url)))
          yield* TestClock.adjust(10_000)
          expect((yield* Fiber.join(asking))._tag).toBe("Failure")
        }
      }),
    )
    const line = "telemetry cannot be exported: no response within 10 s"
    expect(lines).toEqual([line, line])
  }),
)

it.effect("says that a collector refuses, and nothing about one that accepts", () =>
  Effect.gen(function* () {
    const answering = (status: number) =>
      HttpClient.make((request) => Effect.succeed(HttpClientResponse.fromWeb(request, new Response("", { status }))))
    const post = (client: HttpClient.HttpClient) => client.post(url)
    expect(yield* logged(answering(200), post)).toEqual([])
    expect(yield* logged(answering(401), post)).toEqual([
      "telemetry cannot be exported: the collector responded with HTTP 401",
    ])
  }),
)
