// A process that starts a cluster, prints its location, and waits to be killed.
import { realpathSync } from "node:fs"
import { join } from "node:path"
import { startCluster } from "@kiln/postgres-lab"

const cluster = await startCluster({ inMemory: true })
const directories = [cluster.directory, realpathSync(join(cluster.directory, "data"))]
process.stdout.write(`${JSON.stringify({ directories, postmaster: cluster.pid() })}\n`)
setInterval(() => {}, 60_000)
