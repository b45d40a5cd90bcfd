import { join } from "node:path"
import { freshDatabase } from "@kiln/postgres-lab"
import { temporaryDirectory } from "@kiln/service-lab"
import { expect, it } from "vitest"
import { shareOf, startsAt } from "./support/deliveredRates.ts"

/** Rates that run at the same time, a second, and for how many seconds each group is measured. */
const groups = [
  [[1, 5, 10, 50], 20],
  [[200], 10],
  [[1_000], 10],
] as const
const rates = groups.flatMap(([together]) => [...together])
const places = [
  ["memory", 1],
  ["sqlite", 1],
  ["sqlite", 3],
  ["postgres", 1],
  ["postgres", 3],
] as const

// Needs a machine that is idle otherwise: a process that stands still for longer than the burst lasts loses calls.
process.stdout.write(`| store, processes | ${rates.map((rate) => `${rate}/s`).join(" | ")} |\n`)

it.each(places)(
  "a backlog runs at its rate on %s, with %i processes",
  { timeout: 300_000 },
  async (store, processes) => {
    const shares: Array<number> = []
    for (const [together, seconds] of groups) {
      using directory = temporaryDirectory()
      await using database = store === "postgres" ? await freshDatabase() : null
      const place = store === "memory" ? store : (database?.url ?? join(directory.path, "kiln.db"))
      // A second more than is measured, because processes do not begin at once.
      const starts = await startsAt(place, processes, together, seconds + 1)
      for (const rate of together) shares.push(shareOf(starts[rate] ?? [], rate, seconds))
    }
    process.stdout.write(`| ${store}, ${processes} | ${shares.map((share) => share.toFixed(3)).join(" | ")} |\n`)
    for (const share of shares) {
      expect(share).toBeGreaterThanOrEqual(0.95)
      expect(share).toBeLessThanOrEqual(1.02)
    }
  },
)
