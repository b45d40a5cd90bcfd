import { mkdirSync, readFileSync, rmSync } from "node:fs"
import { join } from "node:path"
import { temporaryDirectory } from "@kiln/service-lab"
import { parseAcks, said } from "./Ack.ts"
import { recover, type Recovery } from "./recover.ts"
import { type Call, callsOf, placeOf } from "./Trace.ts"
import { type Kill, runTraced } from "./traced.ts"

const driver = join(import.meta.dirname, "driver.ts")

export interface KillSweepOptions {
  /** How many kills. */
  readonly points: number
  /** Decides texts, files and which calls are hit. */
  readonly seed: number
  /** Concurrent points, default 2. */
  readonly concurrency?: number
  /** Added to the driver's environment: how bugs are planted. */
  readonly env?: Readonly<Record<string, string>>
}

/** One process that was killed. */
export interface KillPoint extends Recovery {
  /** The call it did not survive and what that was about, as `fsync kiln.db-wal`; `undefined` when it was not killed. */
  readonly at: string | undefined
  /** What share of the acknowledgements of a whole run were made by then, 0 to 1. */
  readonly progress: number
}

export interface KillSweep {
  /** Calls of a whole run that change something in the data directory. */
  readonly calls: number
  readonly points: ReadonlyArray<KillPoint>
  readonly killed: number
  readonly accepted: number
  readonly recovered: number
  readonly lost: number
  readonly duplicated: number
  readonly violations: ReadonlyArray<string>
}

/**
 * Kills a working process at one write call after another and recovers what each left. A run without a kill comes first:
 * its calls are grouped by what they do to which part of the data directory, and a group gets points by the root of its size,
 * evenly from its front to its back, so that a few renames are not drowned by a thousand pages of a log.
 */
export const killSweep = async (options: KillSweepOptions): Promise<KillSweep> => {
  using scratch = temporaryDirectory()
  const whole = await runOnce(scratch.path, "whole", options, undefined)
  if (said(whole.acks, "ended").length !== 1) throw new Error(`the driver does not end: ${whole.stderr}`)
  const data = join(scratch.path, "whole")
  const calls = callsOf(whole.trace).filter((call) => placeOf(call, data) !== undefined)
  const points: Array<KillPoint> = []
  const remaining = chooseKills(calls, data, options).map((kill, index) => ({ kill, name: `p${index}` }))
  const worker = async () => {
    for (let next = remaining.pop(); next !== undefined; next = remaining.pop())
      points.push(await killAt(scratch.path, next.name, options, next.kill, whole.acks.length))
  }
  await Promise.all(Array.from({ length: options.concurrency ?? 2 }, worker))
  const sum = (of: (point: KillPoint) => number) => points.reduce((total, point) => total + of(point), 0)
  return {
    calls: calls.length,
    points,
    killed: points.filter(({ at }) => at !== undefined).length,
    accepted: sum(({ accepted }) => accepted),
    recovered: sum(({ recovered }) => recovered),
    lost: sum(({ lost }) => lost),
    duplicated: sum(({ duplicated }) => duplicated),
    violations: points.flatMap(({ at, violations }) => violations.map((violation) => `${at ?? "end"}: ${violation}`)),
  }
}

const runOnce = async (scratch: string, name: string, { env, seed }: KillSweepOptions, kill: Kill | undefined) => {
  const data = join(scratch, name)
  const trace = join(scratch, `${name}.trace`)
  mkdirSync(data)
  const ran = await runTraced(driver, [data, String(seed)], {
    trace,
    ...(kill !== undefined && { kill }),
    ...(env !== undefined && { env }),
  })
  return { ...ran, acks: parseAcks(ran.stdout), trace: readFileSync(trace, "utf8") }
}

const killAt = async (
  scratch: string,
  name: string,
  options: KillSweepOptions,
  kill: Kill,
  acksOfAll: number,
): Promise<KillPoint> => {
  const data = join(scratch, name)
  const { acks, exit, stderr, trace } = await runOnce(scratch, name, options, kill)
  const wasKilled = /\+\+\+ killed by SIGKILL \+\+\+/.test(trace)
  if (!wasKilled && exit !== 0) throw new Error(`the driver ended by itself with ${String(exit)}: ${stderr}`)
  const fatal = callsOf(trace).find((call) => call.name === kill.name && call.nth === kill.nth)
  const place = fatal === undefined ? undefined : (placeOf(fatal, data) ?? "elsewhere")
  const recovery = await recover(data, acks)
  rmSync(data, { recursive: true, force: true })
  return { ...recovery, at: wasKilled ? `${kill.name} ${place ?? "?"}` : undefined, progress: acks.length / acksOfAll }
}

const areaOf = (call: Call, data: string): string => (placeOf(call, data) ?? "").split("/")[0] ?? ""

/** Points for each group by the root of its size, the largest remainders first. */
const sharesOf = (sizes: ReadonlyArray<number>, points: number): ReadonlyArray<number> => {
  const total = sizes.reduce((sum, size) => sum + Math.sqrt(size), 0)
  const exact = sizes.map((size) => (points * Math.sqrt(size)) / total)
  const left = points - exact.reduce((sum, share) => sum + Math.floor(share), 0)
  const byRemainder = exact.map((share, index) => ({ index, rest: share % 1 })).toSorted((a, b) => b.rest - a.rest)
  const lucky = new Set(byRemainder.slice(0, left).map(({ index }) => index))
  return exact.map((share, index) => Math.floor(share) + (lucky.has(index) ? 1 : 0))
}

const chooseKills = (
  calls: ReadonlyArray<Call>,
  data: string,
  { points, seed }: KillSweepOptions,
): ReadonlyArray<Kill> => {
  const groups = [...Map.groupBy(calls, (call) => `${call.name} ${areaOf(call, data)}`).values()]
  const shares = sharesOf(
    groups.map((group) => group.length),
    points,
  )
  return groups.flatMap((group, index) => {
    const share = shares[index] ?? 0
    // Within a group evenly, and in each from another place on: a group's one point must not always be its first call.
    const phase = ((index + seed) * 0.618_034) % 1
    return Array.from({ length: share }, (_, n) => group[Math.floor(((n + phase) / share) * group.length)]).filter(
      (call) => call !== undefined,
    )
  })
}
