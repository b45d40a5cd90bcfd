import { spawn } from "node:child_process"
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { freshDatabase } from "@kiln/postgres-lab"
import { temporaryDirectory, until } from "@kiln/service-lab"
import { expect, it } from "vitest"
import { startsAt } from "./support/deliveredRates.ts"
import { patience } from "./support/Fleet.ts"

const program = join(import.meta.dirname, "support/callAtRate.ts")
const jobs = 60
const limit = { burst: 8, perMs: 10 / 1_000 }

interface Call {
  readonly pid: number
  readonly text: string
  readonly at: number
}

/** A process with an engine, which runs until it is killed. */
const runner = async (...args: ReadonlyArray<string>) => {
  const child = spawn(process.execPath, ["--conditions=@kiln/source", program, ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  })
  const kill = async () => {
    if (child.exitCode === null && child.signalCode === null && child.kill("SIGKILL")) await once(child, "exit")
  }
  const { done } = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next()
  if (done === true) throw new Error("the process ended")
  return { pid: child.pid, kill, [Symbol.asyncDispose]: kill }
}

it.each(["sqlite", "postgres"])(
  "the rate of a provider holds for two processes together, also when one is killed and replaced, on %s",
  patience,
  async (store) => {
    using directory = temporaryDirectory()
    await using database = store === "postgres" ? await freshDatabase() : null
    const place = database?.url ?? join(directory.path, "kiln.db")
    const file = join(directory.path, "calls")
    const calls = (): ReadonlyArray<Call> => {
      try {
        const lines = readFileSync(file, "utf8").split("\n")
        return lines.slice(0, -1).map((line) => JSON.parse(line) as Call)
      } catch {
        return []
      }
    }
    const beganAt = performance.timeOrigin + performance.now()
    // Both run before there are jobs.
    await using other = await runner(place, file)
    await using one = await runner(place, file, String(jobs))
    const ofBoth = () => new Set(calls().map(({ pid }) => pid)).size === 2 && calls().length > jobs / 4
    await until(() => (ofBoth() ? true : undefined))
    await one.kill()
    await using _third = await runner(place, file, String(jobs), String(jobs))
    await until(() => (new Set(calls().map(({ text }) => text)).size === 2 * jobs ? true : undefined))
    const all = calls().toSorted((a, b) => a.at - b.at)
    // A busy machine can only delay calls, so this holds on any: no call comes before its token.
    for (const [n, { at }] of all.entries())
      expect(n + 1).toBeLessThanOrEqual(limit.burst + limit.perMs * (at - beganAt))
    // A job whose worker was killed is called again.
    expect(all.length).toBeGreaterThanOrEqual(2 * jobs)
    expect(all.some(({ pid }) => pid === one.pid) && all.some(({ pid }) => pid === other.pid)).toBe(true)
  },
)

/** The most starts in any period of this length. */
const mostWithin = (starts: ReadonlyArray<number>, periodMs: number): number =>
  Math.max(0, ...starts.map((from) => starts.filter((at) => at >= from && at < from + periodMs).length))

it.each(["sqlite", "postgres"])("a backlog runs at 10 a second in two processes on %s", patience, async (store) => {
  using directory = temporaryDirectory()
  await using database = store === "postgres" ? await freshDatabase() : null
  const place = database?.url ?? join(directory.path, "kiln.db")
  const starts = (await startsAt(place, 2, [10], 8))["10"] ?? []
  // A machine that stands still loses calls, but hardly in each period.
  expect(mostWithin(starts, 3_000)).toBeGreaterThanOrEqual(0.95 * 30)
  // Times are those of the jobs, which start a little after their tokens arrived.
  expect(mostWithin(starts, 1_000)).toBeLessThanOrEqual(2 * (10 + 2))
})
