import * as Cron from "effect/Cron"
import * as Result from "effect/Result"
import { describe, expect, it } from "vitest"
import { CronTimes } from "../src/domain/Schedule.ts"

const minuteMs = 60_000
const hourMs = 60 * minuteMs

const zones = [
  "America/Havana", // at midnight
  "America/New_York",
  "Antarctica/Troll", // by two hours
  "Australia/Lord_Howe", // by half an hour
  "Europe/Berlin",
  "Pacific/Chatham", // a quarter of an hour between zones
  "UTC",
]
const crons = ["30 2 * * *", "0,30 2 * * *", "15,40 2 * * *", "*/15 0-3 * * *", "*/20 * * * *", "15,45 0 * * *"]

/** Returns what a clock in a zone shows, as if it were UTC, by the list of zones of this Node. */
const wallClock = (timeZone: string) => {
  const format = new Intl.DateTimeFormat("sv", { timeZone, dateStyle: "short", timeStyle: "medium" })
  return (at: number): number => Date.parse(`${format.format(at).replace(" ", "T")}Z`)
}

/** A day and a half on both sides of each change of clocks in 2030. */
const changesOf = (wallOf: (at: number) => number): ReadonlyArray<readonly [from: number, to: number]> =>
  Array.from({ length: 365 * 4 }, (_, n) => Date.UTC(2030, 0, 1) + n * 6 * hourMs)
    .filter((at) => wallOf(at) - at !== wallOf(at - 6 * hourMs) - (at - 6 * hourMs))
    .map((at) => [at - 36 * hourMs, at + 36 * hourMs])

/** When the local clock shows each minute of a period first; what it skips comes as much later. */
const minutesOf = (wallOf: (at: number) => number, from: number, to: number): ReadonlyMap<number, number> => {
  const shown = new Map<number, number>()
  for (let at = from - 6 * hourMs; at <= to + 6 * hourMs; at += minuteMs) {
    const wall = wallOf(at)
    if (!shown.has(wall)) shown.set(wall, at)
  }
  const offsetBefore = wallOf(from) - from
  const [first = 0] = shown.keys()
  const minutes = new Map<number, number>()
  for (let wall = first; wall <= wallOf(to + 6 * hourMs); wall += minuteMs)
    minutes.set(wall, shown.get(wall) ?? wall - offsetBefore)
  return minutes
}

describe.each(zones)("times of cron expressions in %s", (zone) => {
  const wallOf = wallClock(zone)
  const changes = changesOf(wallOf)
  const day = Date.UTC(2030, 5, 1)
  const periods = [...changes, [day, day + 36 * hourMs] as const].map(
    ([from, to]) => [from, to, minutesOf(wallOf, from, to)] as const,
  )

  it.each(crons)("are those of the local clock: %s", (cron) => {
    expect(changes).toHaveLength(zone === "UTC" ? 0 : 2)
    const times = new CronTimes(cron, zone)
    const parsed = Result.getOrThrow(Cron.parse(cron, "UTC"))
    for (const [from, to, minutes] of periods) {
      const ticks = [...new Set([...minutes].flatMap(([wall, at]) => (Cron.match(parsed, new Date(wall)) ? [at] : [])))]
        .filter((tick) => tick > from && tick <= to)
        .toSorted((a, b) => a - b)
      const found: Array<number> = []
      for (let tick = times.next(from); tick <= to; tick = times.next(tick)) found.push(tick)
      expect(found).toEqual(ticks)
      for (const [index, tick] of ticks.slice(0, -1).entries())
        for (const now of [tick, tick + 1, (ticks[index + 1] ?? 0) - 1]) expect(times.lastUntil(now)).toBe(tick)
    }
  })
})
