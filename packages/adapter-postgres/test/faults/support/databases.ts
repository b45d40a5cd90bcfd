import { afterAll, beforeAll } from "vitest"
import { type Cluster, type ClusterOptions, type FreshDatabase, freshDatabase, startCluster } from "@kiln/postgres-lab"
import { Effect } from "effect"
import { postgresMigrations } from "../../../src/index.ts"
import { session } from "./session.ts"
import { until } from "./until.ts"

/** A server for this file's tests, and databases on it with the schema in place. */
export const useCluster = (options: ClusterOptions = {}) => {
  let cluster: Cluster | undefined
  let template: FreshDatabase | undefined
  const started = (): Cluster => {
    if (cluster === undefined) throw new Error("the server runs while tests do")
    return cluster
  }
  beforeAll(async () => {
    cluster = await startCluster({ inMemory: true, ...options })
    template = await freshDatabase({ server: cluster.url })
    await Effect.runPromise(postgresMigrations.apply({ url: template.url }))
  })
  afterAll(() => cluster?.dispose())
  return {
    get server(): Cluster {
      return started()
    },
    database: (): Promise<FreshDatabase> =>
      freshDatabase({ server: started().url, ...(template !== undefined && { template: template.name }) }),
    /** The backends of this application, once there are some. */
    backendsOf: (application: string) =>
      until(async () => {
        const found = (await started().backends()).filter((one) => one.applicationName === application)
        return found.length > 0 ? found : undefined
      }),
    /** The process of a verb's statement that waits for a lock, once there is one. */
    waiting: (): Promise<number> =>
      until(async () => {
        await using client = await session(started().adminUrl)
        const { rows } = await client.query<{ pid: number }>(
          "SELECT pid FROM pg_stat_activity WHERE application_name = 'kiln' AND wait_event_type = 'Lock'",
        )
        return rows[0]?.pid
      }),
  }
}
