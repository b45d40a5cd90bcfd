import type { PublishedWorker } from "@kiln/core/ports"
import { decodeStandings, decodeStrings } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

const publications = statement((given: Given<{ now: number }>) =>
  query
    .selectFrom("workers")
    .select(["worker_id as workerId", "live_kinds as liveKinds", "providers"])
    .where("live_until", ">", given.now)
    .orderBy("worker_id"),
)

export const listWorkers = (tx: Transaction): ReadonlyArray<PublishedWorker> =>
  tx.all(publications, { now: tx.now }).map(({ liveKinds, providers, workerId }) => ({
    workerId,
    liveKinds: decodeStrings(liveKinds, `worker ${workerId}`),
    providers: decodeStandings(providers, `worker ${workerId}`),
  }))
