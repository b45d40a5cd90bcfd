import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { freshDatabase, tcpProxy } from "@kiln/postgres-lab"
import type { ClaimRequest, NewJob } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { openStores } from "./support/openStores.ts"
import { session } from "./support/session.ts"

const { completionOf, newJob, noLimits, projectId } = fixtures
/** Runs a scenario on a database of its own. Returns what happened, and what should. */
const outcome = async (scenario: string) => {
  await using database = await freshDatabase()
  await using proxy = await tcpProxy(database.url)
  await using stores = await openStores({ url: proxy.url, poolSize: 2, noteLanesEveryMs: 0, reconnectForMs: 10_000 })
  await using other = await session(database.url)
  await using opened = await session(database.url)

  /** The tags of the outcomes, or why it failed. */
  const create = (...jobs: ReadonlyArray<NewJob>): Promise<string> =>
    Effect.runPromise(
      stores.jobs.createJobs(jobs).pipe(
        Effect.map((outcomes) => outcomes.map(({ _tag }) => _tag).join(", ")),
        Effect.catchCause((cause) => Effect.succeed(`failed with ${String(cause)}`)),
      ),
    )

  const claimOf = (kind: string): ClaimRequest => ({
    runnable: [{ kind, kindVersion: 1, mode: "sandbox" }],
    limits: noLimits,
    limit: 10,
    leaseDurationMs: 60_000,
    maxLostWorkers: 3,
  })

  /** Creates jobs after the lane that the process remembers has become another one; returns the kinds of the lanes they are in. */
  const kindsAfterLaneWasGone = async (...jobs: ReadonlyArray<NewJob>): Promise<string> => {
    await create(newJob(2, { kind: "short_lived" }))
    await other.query(`UPDATE "kiln".lanes SET kind = 'another' WHERE kind = 'short_lived'`)
    await create(...jobs)
    const { rows } = await other.query<{ kind: string }>(
      `SELECT lanes.kind FROM "kiln".queue JOIN "kiln".lanes ON lanes.id = lane_id WHERE queue.id = ANY ($1)`,
      [jobs.map(({ id }) => id)],
    )
    return rows.map(({ kind }) => kind).join()
  }

  const scenarios: Readonly<Record<string, () => Promise<readonly [answered: string, expected: string]>>> = {
    "lost answer": async () => {
      const dropped = proxy.dropAnswer(/accept_job/)
      const answered = await create(newJob(2))
      await dropped
      return [answered, "Created"]
    },
    "lane gone": async () => [await kindsAfterLaneWasGone(newJob(3, { kind: "short_lived" })), "short_lived"],
    "lane of a list gone": async () => [
      await kindsAfterLaneWasGone(newJob(3, { kind: "short_lived" }), newJob(4, { kind: "short_lived" })),
      "short_lived,short_lived",
    ],
    sooner: async () => {
      await create(newJob(2, { kind: "delayed", delayMs: 60_000 }))
      await create(newJob(3, { kind: "delayed" }))
      const { claims } = await Effect.runPromise(stores.jobs.claimJobs(claimOf("delayed")))
      return [claims.some(({ job }) => job.id === newJob(3).id) ? "the later job" : "nothing", "the later job"]
    },
    // A worker finds the lane empty while a creation is about to commit.
    bound: async () => {
      await create(newJob(2, { kind: "slow" }))
      const { claims } = await Effect.runPromise(stores.jobs.claimJobs(claimOf("slow")))
      await Effect.runPromise(stores.jobs.completeJobs(claims.map((claim) => completionOf(claim))))
      const lane = `(SELECT id FROM "kiln".lanes WHERE kind = 'slow')`
      await other.query(`UPDATE "kiln".lanes SET next_at = 1 WHERE kind = 'slow'`)
      await other.query("BEGIN")
      const { id, idempotencyKey, keyId, mode, projectId: project } = newJob(3)
      await other.query(
        `SELECT "kiln".add_job($1, $2, $3, $4, 'slow', 1, NULL, 0::smallint, '{}', $5, 'f', NULL, 1000, 1000, 0, '{}', ${lane},
         NULL, NULL, '0', NULL, NULL)`,
        [id, project, keyId, mode, idempotencyKey],
      )
      const { rows } = await opened.query(`SELECT * FROM "kiln".settle_lanes(ARRAY[${lane}])`)
      await other.query("COMMIT")
      return [rows.length === 0 ? "raised" : "kept", "kept"]
    },
    replay: async () => [await create(newJob(1), newJob(2)), "Replayed, Created"],
    "replay of one": async () => [await create(newJob(1)), "Replayed"],
    cap: async () => {
      const capped = (n: number) => newJob(n, { projectId: projectId(9), queueCap: 1 })
      await create(capped(2))
      return [await create(capped(3)), "QueueFull"]
    },
    "cap of a list": async () => {
      await create(newJob(2, { projectId: projectId(9) }))
      const capped = (n: number) => newJob(n, { projectId: projectId(9), queueCap: 2 })
      return [await create(capped(3), capped(4)), "Created, QueueFull"]
    },
  }

  // Makes the lane, and has the process remember it.
  await create(newJob(1))
  return (await scenarios[scenario]?.()) ?? ["", "a scenario"]
}

describe("a creation in one round trip", () => {
  it.each([
    "lost answer",
    "lane gone",
    "lane of a list gone",
    "sooner",
    "bound",
    "replay",
    "replay of one",
    "cap",
    "cap of a list",
  ])("%s", async (scenario) => {
    const [found, expected] = await outcome(scenario)
    expect(found).toBe(expected)
  })
})
