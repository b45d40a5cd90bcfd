import { expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { MemoryStores } from "@kiln/testing"
import { readMatching } from "../src/engine/matchingJobs.ts"

it.effect("looks at each of its queries at least once, however slow the store is", () =>
  Effect.gen(function* () {
    const queries = [{ status: "queued" }, { status: "processing" }] as const
    const selection = { queries, matches: () => Effect.succeed([]) }
    const read = yield* readMatching(selection, { limit: 5, lookMs: 0 })
    expect(read).toEqual({ jobs: [], next: null, lookedAt: 0, oldest: undefined })
  }).pipe(Effect.provide(MemoryStores.layer)),
)
