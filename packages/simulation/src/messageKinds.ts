import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import { JobKind } from "@kiln/core/kinds"

/** The signal that a narration waits for. */
export const approval = "approved"
/** The sleep of a narration. */
export const rest = "rest"
/** Milliseconds that a narration waits for its signal. Callers send it within a little more. */
export const approvalMs = 12_000
/** Milliseconds that a narration sleeps. */
export const restMs = 2_000

const text = Schema.String.check(Schema.isMinLength(1))

const lastCode = (request: string): number => request.charCodeAt(request.length - 1)

/** Number of chunks of a narration. */
export const chunksOf = (request: string): number => 2 + (lastCode(request) % 7)

/** Whether each attempt of a narration emits all its chunks again. Others go on after those of earlier attempts. */
export const beginsAgain = (request: string): boolean => lastCode(request) % 3 === 0

/** A job that emits chunks, waits for a signal in the middle of them, and sleeps. */
export const narration = JobKind({
  name: "narration",
  request: Schema.Struct({ text }),
  example: { text: "Clay." },
  chunk: Schema.Struct({ n: Schema.Number }),
  output: Schema.Struct({ text: Schema.String, approved: Schema.NullOr(Schema.String) }),
  providers: ["reply"],
  run: Effect.fnUntraced(function* ({ ask, emit, emitted, request, sleep, step, waitFor }) {
    const emitUpTo = (from: number, to: number) =>
      Effect.forEach(
        Array.from({ length: Math.max(0, to - from) }, (_, place) => from + place),
        // Often several at once, which are written together.
        (n) =>
          Effect.andThen(
            emit({ n }),
            Effect.flatMap(Random.nextIntBetween(0, 4), (part) => Effect.sleep(part * 200)),
          ),
        { discard: true },
      )
    const count = chunksOf(request.text)
    const half = beginsAgain(request.text) ? 0 : Math.floor(count / 2)
    const reply = yield* step("reply", ask.reply({ text: request.text, maxOutputTokens: 16, instructions: undefined }))
    yield* emitUpTo(emitted, half)
    const approved = yield* waitFor(approval, { timeout: approvalMs, schema: Schema.String })
    yield* sleep(rest, restMs)
    yield* emitUpTo(half === 0 ? 0 : Math.max(half, emitted), count)
    const by = approved.timedOut ? null : (approved.value as string)
    return { output: { text: reply.text, approved: by }, files: [], usage: {} }
  }),
})

/** Jobs that one call runs together. */
export const embedding = JobKind({
  name: "embedding",
  request: Schema.Struct({ text }),
  example: { text: "Clay." },
  output: Schema.Struct({ embedded: Schema.String, together: Schema.Number }),
  batch: { size: 3, waitMs: 300 },
  run: Effect.fnUntraced(function* (jobs) {
    yield* Effect.sleep(yield* Random.nextIntBetween(0, 10_000))
    return jobs.map(({ request }) =>
      Exit.succeed({ output: { embedded: request.text, together: jobs.length }, files: [], usage: {} }),
    )
  }),
})
