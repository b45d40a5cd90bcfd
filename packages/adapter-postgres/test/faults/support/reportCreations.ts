// A process of its own, so that a bug can be planted in what it loads: reports what a creation in one round trip gets wrong.
import { Effect } from "effect"
import { freshDatabase, tcpProxy } from "@kiln/postgres-lab"
import type { NewJob } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { openStores } from "./openStores.ts"
import { session } from "./session.ts"

const { newJob, projectId } = fixtures
const [server = "", scenario = ""] = process.argv.slice(2)

await using database = await freshDatabase({ server })
await using proxy = await tcpProxy(database.url)
await using stores = await openStores({ url: proxy.url, poolSize: 2, noteLanesEveryMs: 0, reconnectForMs: 10_000 })
await using other = await session(database.url)

/** The tags of the outcomes, or why it failed. */
const create = (...jobs: ReadonlyArray<NewJob>): Promise<string> =>
  Effect.runPromise(
    stores.jobs.createJobs(jobs).pipe(
      Effect.map((outcomes) => outcomes.map(({ _tag }) => _tag).join(", ")),
      Effect.catchCause((cause) => Effect.succeed(`failed with ${String(cause)}`)),
    ),
  )

/** Each returns what is answered, and what should be. */
const scenarios: Readonly<Record<string, () => Promise<readonly [answered: string, expected: string]>>> = {
  "lost answer": async () => {
    const dropped = proxy.dropAnswer(/add_jobs/)
    const answered = await create(newJob(2))
    await dropped
    return [answered, "Created"]
  },
  "lane gone": async () => {
    await create(newJob(2, { kind: "short_lived" }))
    await other.query(`UPDATE "kiln".lanes SET kind = 'another' WHERE kind = 'short_lived'`)
    await create(newJob(3, { kind: "short_lived" }))
    const { rows } = await other.query<{ kind: string }>(
      `SELECT lanes.kind FROM "kiln".queue JOIN "kiln".lanes ON lanes.id = lane_id WHERE queue.id = $1`,
      [newJob(3).id],
    )
    return [rows.map(({ kind }) => kind).join(), "short_lived"]
  },
  replay: async () => [await create(newJob(1), newJob(2)), "Replayed, Created"],
  cap: async () => {
    const capped = (n: number) => newJob(n, { projectId: projectId(9), queueCap: 1 })
    await create(capped(2))
    return [await create(capped(3)), "QueueFull"]
  },
}

// Makes the lane, and has the process remember it.
await create(newJob(1))
const [answered, expected] = (await scenarios[scenario]?.()) ?? ["", "a scenario"]
if (answered !== expected) process.stdout.write(`${scenario}: ${answered}, not ${expected}\n`)
