import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import type { StoreInspection } from "@kiln/core/ports"
import { type Check, counted, ok, problem, skipped } from "./Check.ts"

const name = "workers"

/** Checks that a worker is running if there are jobs. A worker that died is forgotten within 30 seconds. */
export const checkWorkers = (
  store: Pick<StoreInspection, "countQueue" | "listWorkers">,
): Effect.Effect<Check, StoreUnavailable> =>
  Effect.gen(function* () {
    const workers = yield* store.listWorkers
    if (workers.length > 0) {
      const slots = workers.reduce((sum, { scope }) => sum + (scope?.slots ?? 0), 0)
      return ok(name, `${counted(workers.length, "worker")} running, with ${counted(slots, "slot")}`)
    }
    const unfinished = (yield* store.countQueue).reduce((sum, { count }) => sum + count, 0)
    return unfinished === 0
      ? skipped(name, "none is running, and no job is unfinished")
      : problem(name, {
          summary: `none is running, and ${unfinished === 1 ? "1 job waits" : `${unfinished} jobs wait`} for one`,
          remedy: "start a worker: kiln serve, with KILN_ROLE=all or KILN_ROLE=worker; or see why its process ended",
        })
  })
