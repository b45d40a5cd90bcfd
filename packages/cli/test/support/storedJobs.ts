import { Effect } from "effect"
import { SqliteStores } from "@kiln/adapter-sqlite"
import type { Job, JobId, Principal } from "@kiln/core/domain"
import { JobStore } from "@kiln/core/ports"

/** The jobs of a key as a data directory's store has them; no process need be running. */
export const storedJobs = (
  dataDirectory: string,
  owner: Principal,
  ids: ReadonlyArray<string>,
): Promise<ReadonlyArray<Job>> =>
  Effect.gen(function* () {
    const store = yield* JobStore
    const found = yield* store.findJobs(ids.map((id) => ({ jobId: id as JobId, principal: owner })))
    return found.filter((job) => job !== undefined)
  }).pipe(Effect.provide(SqliteStores.layer({ path: `${dataDirectory}/kiln.db` })), Effect.runPromise)
