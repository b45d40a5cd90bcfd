// A process that starts a cluster, says where, and waits for its end.
import { realpathSync } from "node:fs"
import { join } from "node:path"
import { startCluster } from "@kiln/postgres-lab"

const cluster = await startCluster({ inMemory: true })
const directories = [cluster.directory, realpathSync(join(cluster.directory, "data"))]
process.stdout.write(`${JSON.stringify({ directories, postmaster: cluster.pid() })}\n`)
setInterval(() => {}, 60_000)
