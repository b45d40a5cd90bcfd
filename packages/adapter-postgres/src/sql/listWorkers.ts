import type { PublishedWorker } from "@kiln/core/ports"
import { decodeStandings, decodeStrings } from "@kiln/core/ports"
import type { Session } from "../Session.ts"
import { query, statement, storeTime } from "../Statement.ts"

const publications = statement(() =>
  query
    .selectFrom("workers")
    .select(["worker_id as workerId", "live_kinds as liveKinds", "providers"])
    .where("live_until", ">", storeTime)
    .orderBy("worker_id"),
)

export const listWorkers = async (session: Session): Promise<ReadonlyArray<PublishedWorker>> =>
  (await session.all(publications, {})).map(({ liveKinds, providers, workerId }) => ({
    workerId,
    liveKinds: decodeStrings(liveKinds, `worker ${workerId}`),
    providers: decodeStandings(providers, `worker ${workerId}`),
  }))
