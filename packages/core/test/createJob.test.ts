import { assert, describe, it } from "@effect/vitest"
import { authorize, Engine } from "@kiln/core"
import { Cause, Effect, Exit } from "effect"
import { kind, principal, within } from "./support/harness.ts"

describe("createJob", () => {
  it.effect("a grant for one scope creates no job that needs another", () =>
    Effect.gen(function* () {
      const engine = yield* Engine
      const grant = authorize({ ...principal(), scopes: ["audio.create"] }, "audio.create")
      if (grant === undefined) throw new Error("no grant")
      const exit = yield* Effect.exit(engine.createJob(grant, kind("image_generation"), { prompt: "x" }, "k"))
      assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
    }).pipe(within()),
  )
})
