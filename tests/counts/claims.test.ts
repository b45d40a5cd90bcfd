import { postgresStore } from "@kiln/adapter-postgres"
import { createEngine, jobKind } from "@kiln/core"
import { freshDatabase, tcpProxy } from "@kiln/postgres-lab"
import { memoryBlobs } from "@kiln/testing"
import { describe, expect, it } from "vitest"
import { z } from "zod"

/** What limits the jobs of a drain, without holding back any of them. */
interface Limits {
  readonly perProject?: number
  readonly perKind?: Readonly<Record<string, number>>
  readonly ofOneProject?: number
  readonly rate?: { readonly limit: number; readonly perMs: number }
}

const jobs = 60
const slots = 8

/** Counts what a worker with eight slots sends while it runs the jobs of so many projects. */
const drain = async ({ ofOneProject, perKind = {}, perProject = 0, rate }: Limits, projects: number) => {
  await using database = await freshDatabase()
  await using proxy = await tcpProxy(database.url)
  const noop = jobKind({
    name: "noop",
    request: z.object({}),
    limits: rate === undefined ? {} : { rate },
    run: () => Promise.resolve({ output: {} }),
  })
  const engine = await createEngine({
    store: postgresStore({ url: proxy.url, notifications: false }),
    blobs: memoryBlobs(),
    kinds: [noop],
    autoStart: false,
    log: false,
    settings: {
      concurrency: slots,
      limits: { perKind, perProject },
      sweepIntervalMs: 3_600_000,
      pruneIntervalMs: 3_600_000,
    },
  })
  try {
    if (ofOneProject !== undefined) await engine.operator.limitProject("project-0", { concurrency: ofOneProject })
    for (let n = 0; n < jobs; n += 1) await engine.submit("noop", {}, { project: `project-${n % projects}` })
    const done = Promise.withResolvers<void>()
    let count = 0
    using _ = engine.on("completed", () => {
      count += 1
      if (count === jobs) done.resolve()
    })
    proxy.resetCounts()
    await engine.start()
    await done.promise
    return {
      statements: [...proxy.statements().values()].reduce((sum, each) => sum + each, 0),
      flights: proxy.flights(),
    }
  } finally {
    await engine.stop({ drainMs: 0 })
  }
}

type Counts = Awaited<ReturnType<typeof drain>>

/** The least of several rounds, because work by the clock only adds: a busy machine gives it more time. */
const leastOf = async (measure: () => Promise<Counts>, isEnough: (least: Counts, rounds: number) => boolean) => {
  let least = await measure()
  for (let rounds = 1; !isEnough(least, rounds) && rounds < 5; rounds += 1) {
    const { flights, statements } = await measure()
    least = { flights: Math.min(least.flights, flights), statements: Math.min(least.statements, statements) }
  }
  return least
}

const limited: Readonly<Record<string, Limits>> = {
  "limit 10 a project": { perProject: 10 },
  "limit of a kind": { perKind: { noop: 20 } },
  "with a rate": { rate: { limit: 10_000, perMs: 1_000 } },
  "with all of these": {
    perProject: 10,
    ofOneProject: 9,
    perKind: { noop: 20 },
    rate: { limit: 10_000, perMs: 1_000 },
  },
}

describe(`running ${jobs} jobs of six projects in ${slots} slots costs at most half as much again as without limits`, () => {
  let plain: Promise<Counts> | undefined

  it.each(Object.entries(limited))("%s", async (_name, limits) => {
    const without = await (plain ??= leastOf(
      () => drain({}, 6),
      (_least, rounds) => rounds === 2,
    ))
    // The end of a limited job makes room in any process. The worker itself hears that too, and sometimes looks again for nothing.
    const most = { statements: 1.5 * without.statements + 4, flights: 1.5 * without.flights + 4 }
    const counted = await leastOf(
      () => drain(limits, 6),
      ({ flights, statements }) => flights <= most.flights && statements <= most.statements,
    )
    const message = `${JSON.stringify(counted)}, without ${JSON.stringify(without)}`
    expect(counted.statements, message).toBeLessThanOrEqual(most.statements)
    expect(counted.flights, message).toBeLessThanOrEqual(most.flights)
  })
})
