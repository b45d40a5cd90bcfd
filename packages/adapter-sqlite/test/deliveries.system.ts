import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { DeliveryStore } from "@kiln/core/ports"
import { SqliteStores } from "../src/index.ts"
import { child } from "./support/childProcess.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const script = new URL("./support/finishAndDie.ts", import.meta.url)

/** Lets a process run a job until it is killed. Returns the job's id. */
const killedAt = (path: string, mode: "end" | "call") =>
  Effect.scoped(
    Effect.gen(function* () {
      const process = yield* child(script, path, mode)
      const id = yield* Effect.promise(process.line)
      expect(yield* Effect.promise(() => process.ended)).toBe("SIGKILL")
      return id
    }),
  )

const nextCall = (path: string) =>
  Effect.scoped(Effect.flatMap(child(script, path, "live"), ({ line }) => Effect.promise(line)))

describe("onFinished of a process that is killed", () => {
  it.live("between the job's end and the call is called by the next process", () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      const id = yield* killedAt(path, "end")
      expect(yield* nextCall(path)).toBe(`${id} done 1`)
    }),
  )

  it.live("in the call is called again once the lease has ended", () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      const id = yield* killedAt(path, "call")
      yield* Effect.gen(function* () {
        const store = yield* DeliveryStore
        const [held] = yield* store.listDeliveries(10)
        if (held === undefined) throw new Error("the delivery is gone")
        expect(held).toMatchObject({ jobId: id, attempts: 1 })
        expect(held.dueAt).toBeGreaterThan(Date.now() + 1_000)
        // Stands for the end of the lease, a minute later.
        yield* store.settleDeliveries([{ jobId: held.jobId, token: held.token, retryInMs: 0, counts: true }])
      }).pipe(Effect.provide(SqliteStores.layer({ path })))
      expect(yield* nextCall(path)).toBe(`${id} done 2`)
    }),
  )
})
