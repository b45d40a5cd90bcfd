import type { Cluster } from "@kiln/postgres-lab"
import { expect } from "vitest"

/** Returns the process id of the only backend of the client with this name. */
export const pidOf = async (cluster: Cluster, applicationName: string): Promise<number> => {
  const found = (await cluster.backends()).filter((backend) => backend.applicationName === applicationName)
  expect(found).toHaveLength(1)
  return found[0]?.pid ?? -1
}
