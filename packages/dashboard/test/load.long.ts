import { setTimeout as sleep } from "node:timers/promises"
import { expect, it } from "vitest"
import { z } from "zod"
import { postgresStore } from "@kiln/adapter-postgres"
import { jobKind } from "@kiln/core"
import { freshDatabase } from "@kiln/postgres-lab"
import { openWorld, type World } from "./support/world.ts"

/**
 * A share of the whole: `KILN_DASHBOARD_LOAD=0.01` runs it with 10,000 jobs for six seconds, to see that it runs. Its figures count
 * with 1.
 */
const share = Number(process.env["KILN_DASHBOARD_LOAD"] ?? 1)

const finishedJobs = Math.round(1_000_000 * share)
const runMs = 600_000 * share
const jobsPerSecond = 200
const viewers = 10
const pauseMs = 1_000
const slowestMs = 300
/** Jobs that wait at the end, to be counted. */
const delayed = 300
const batch = 1_000

const note = jobKind({
  name: "echo",
  request: z.strictObject({ text: z.string() }),
  output: z.object({ said: z.string() }),
  run: async ({ failure, request }) => {
    if (request.text.endsWith("7")) throw failure("content_rejected", { message: "for the log" })
    return { output: { said: request.text } }
  },
})

const figure = (text: string): void => void process.stdout.write(`figure: ${text}\n`)

const processorMs = (): number => {
  const { system, user } = process.cpuUsage()
  return (system + user) / 1_000
}

const percentile = (values: ReadonlyArray<number>, share95: number): number =>
  values.toSorted((one, other) => one - other)[Math.floor(values.length * share95)] ?? Number.NaN

const submit = async (
  world: World,
  count: number,
  project: string,
  options: { readonly delayMs?: number } = {},
): Promise<void> => {
  const outcomes = await world.engine.submitMany(
    "echo",
    Array.from({ length: count }, (_, n) => ({ request: { text: `${n}` }, project, ...options })),
  )
  const refused = outcomes.find(({ error }) => error !== undefined)
  if (refused?.error !== undefined) throw refused.error
}

/** Waits until all jobs that were submitted have finished. */
const settle = async ({ engine }: World): Promise<void> => {
  for (;;) {
    const rows = await engine.operator.measureQueue()
    if (rows.every(({ ready, running }) => ready + running === 0)) return
    await sleep(50)
  }
}

/** What a viewer looks at, one after the other. */
const views = [
  "/overview",
  "/jobs",
  "/jobs?status=failed",
  "/jobs?project=prj_load&status=done",
  "/failures?span=1h",
  "/history?span=24h",
  "/types",
  "/projects",
] as const

/** Looks at all views in turn, as long as the load lasts. */
const look = async (world: World, until: number, times: Map<string, Array<number>>, first: number): Promise<void> => {
  for (let n = first; Date.now() < until; n += 1) {
    const view = views[n % views.length] ?? "/overview"
    const startedAt = performance.now()
    const { status } = await world.ask(world.tokens.view, "GET", view)
    expect([view, status]).toEqual([view, 200])
    times.set(view, [...(times.get(view) ?? []), performance.now() - startedAt])
    await sleep(pauseMs)
  }
}

/** Submits at an even rate. Returns how many jobs it submitted. */
const load = async (world: World, until: number): Promise<number> => {
  let submitted = 0
  const startedAt = Date.now()
  while (Date.now() < until) {
    const due = Math.floor(((Date.now() - startedAt) / 1_000) * jobsPerSecond) - submitted
    if (due > 0) await submit(world, due, "load")
    submitted += due
    await sleep(50)
  }
  return submitted
}

const loadedFor = async (world: World, ms: number, watch: (until: number) => Promise<unknown>) => {
  const [until, before, startedAt] = [Date.now() + ms, processorMs(), performance.now()]
  const [submitted] = await Promise.all([load(world, until), watch(until)])
  await settle(world)
  return { submitted, ofCore: (processorMs() - before) / (performance.now() - startedAt) }
}

it.each(["sqlite", "postgres"] as const)(
  "ten viewers of a million jobs under load see the store's counts soon: %s",
  { timeout: 7_200_000 },
  async (name) => {
    await using database = name === "postgres" ? await freshDatabase() : undefined
    const store = database === undefined ? "sqlite" : postgresStore({ url: database.url, migrate: true })
    await using world = await openWorld(store, { concurrency: 32 }, { kinds: [note], providers: {} })
    for (let made = 0; made < finishedJobs; made += batch) {
      await submit(world, Math.min(batch, finishedJobs - made), `p${(made / batch) % 50}`)
      if (made % (10 * batch) === 0) await settle(world)
    }
    await settle(world)

    const alone = await loadedFor(world, runMs / 10, () => Promise.resolve())
    const times = new Map<string, Array<number>>()
    const watched = await loadedFor(world, runMs, (until) =>
      Promise.all(Array.from({ length: viewers }, (_, first) => look(world, until, times, first))),
    )

    const total = (await world.engine.operator.count()).reduce((sum, { count }) => sum + count, 0)
    expect(total).toBe(finishedJobs + alone.submitted + watched.submitted)
    await submit(world, delayed, "later", { delayMs: 3_600_000 })
    // A look is kept for as long as its cost asks for.
    await expect
      .poll(
        async () => {
          const { body } = await world.ask(world.tokens.view, "GET", "/overview")
          return body.queues.map((row: { readonly delayed: number; readonly ready: number }) => [
            row.ready,
            row.delayed,
          ])
        },
        { timeout: 120_000, interval: 500 },
      )
      .toEqual([[0, delayed]])
    const queues = await world.engine.operator.measureQueue()
    expect(queues.map((row) => [row.ready, row.delayed])).toEqual([[0, delayed]])

    figure(`${name}: ${total} jobs, ${watched.submitted} of them submitted while ${viewers} viewers looked`)
    figure(`${name}: ten viewers take ${((watched.ofCore - alone.ofCore) * 100).toFixed(1)} % of a core`)
    for (const [view, taken] of times) {
      const p95 = percentile(taken, 0.95)
      figure(`${name}: ${view}: p95 ${p95.toFixed(0)} ms of ${taken.length} looks`)
      expect([view, p95 <= slowestMs]).toEqual([view, true])
    }
  },
)
