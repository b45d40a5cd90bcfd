import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { Answer } from "./support/Answer.ts"
import type { ServiceSettings } from "./support/Service.ts"
import { startService } from "./support/startService.ts"
import { runRow, type Table } from "./support/tables.ts"
import { keys } from "./tables/keys.ts"
import { ownership } from "./tables/ownership.ts"
import { races } from "./tables/races.ts"

/** A port that breaks a promise of docs/invariants.md, and the rows each of which must fail. */
const bugs: ReadonlyArray<{
  readonly bug: string
  readonly promise: number
  readonly wrap: NonNullable<ServiceSettings["wrap"]>
  readonly table: Table
  readonly rows: RegExp
}> = [
  {
    bug: "two jobs for one idempotency key",
    promise: 20,
    wrap: ({ jobs }) => {
      let count = 0
      return {
        jobs: {
          ...jobs,
          createJobs: (items) =>
            jobs.createJobs(items.map((item) => ({ ...item, idempotencyKey: `${item.idempotencyKey}-${count++}` }))),
        },
      }
    },
    table: races,
    rows: /with one idempotency key make one job/,
  },
  {
    bug: "revoked and expired keys that work",
    promise: 48,
    wrap: ({ keys: directory }) => ({
      keys: {
        ...directory,
        findKey: (hash) =>
          Effect.map(directory.findKey(hash), (record) => record && { ...record, revokedAt: null, expiresAt: null }),
      },
    }),
    table: keys,
    rows: /a revoked key is refused within 5 s|an expired key is/,
  },
]

/** The rows that pass although they must fail. Without the bug they pass: the other files run them. */
const blindRows = async (settings: ServiceSettings, table: Table, pattern: RegExp): Promise<ReadonlyArray<string>> => {
  const rows = table.rows.filter(({ name }) => pattern.test(name))
  if (rows.length === 0) return [`no row is called ${pattern.source}`]
  const service = await startService("memory", settings)
  try {
    const passed = await Promise.all(
      rows.map((row) =>
        runRow(row, service).then(
          () => [row.name],
          () => [],
        ),
      ),
    )
    return passed.flat()
  } finally {
    await service.stop()
  }
}

describe("the tables find", () => {
  it.concurrent.each(bugs)("$bug (promise $promise)", async ({ rows, table, wrap }) => {
    expect(await blindRows({ wrap }, table, rows)).toEqual([])
  })
})

/** Rewords messages, which no row checks. */
const rewording: ServiceSettings = {
  tamper: (answer) =>
    answer.isJson
      ? new Answer({ ...answer.wire, body: Buffer.from(answer.text.replace('"message":"', '"message":"Well: ')) })
      : answer,
}

it("the comparison of two stores finds differences that no row checks", async () => {
  const services = await Promise.all([{}, rewording].map((settings) => startService("memory", settings)))
  try {
    const rows = ownership.rows.filter(({ name }) => name.startsWith("the owner finds no"))
    expect(rows.length).toBeGreaterThan(0)
    for (const row of rows) {
      const [usual, other] = await Promise.all(services.map((service) => runRow(row, service)))
      expect(other).not.toEqual(usual)
    }
  } finally {
    await Promise.all(services.map((service) => service.stop()))
  }
})
