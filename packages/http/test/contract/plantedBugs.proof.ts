import { describe, expect, it } from "vitest"
import { otherWording, portBugs, wordingBugs } from "./support/bugs.ts"
import type { ServiceSettings } from "./support/Service.ts"
import { startService } from "./support/startService.ts"
import { runRow, type Table } from "./support/tables.ts"
import { besidesRoutes } from "./tables/besides.ts"
import { files } from "./tables/files.ts"
import { idempotency } from "./tables/idempotency.ts"
import { keys } from "./tables/keys.ts"
import { outcomes } from "./tables/outcomes.ts"
import { ownership } from "./tables/ownership.ts"
import { races } from "./tables/races.ts"
import { routing } from "./tables/routes.ts"
import { success } from "./tables/success.ts"
import { transfers } from "./tables/transfers.ts"
import { uploadSettings } from "./tables/uploads.ts"

/** The rows each of which must fail on a service with the bug. Without it they pass: the other files run them. */
const plan: Readonly<Record<string, readonly [table: Table, rows: RegExp]>> = {
  "a wrong error code": [ownership, /finds nothing on any route/],
  "a wrong status": [transfers, /five transfers may begin/],
  "a wrong error type": [idempotency, /^a key of (empty|two headers) is|need a key/],
  "param is missing": [keys, /no Authorization header is|a wrong checksum/],
  "an additional field": [success, /answers 202/],
  "a renamed field": [success, /GET of a done (speech|transcription)/],
  "a price that is a number": [success, /GET of a done (speech|transcription)/],
  "a request id that differs from the header": [keys, /no Authorization header is/],
  "no Retry-After on polls": [success, /Retry-After/],
  "no nosniff": [success, /./],
  "no challenge": [keys, /: the one answer to every bad key|no Authorization header is/],
  "no Allow": [routing, /is 405 and says/],
  "replays without their header": [idempotency, /the same answer again/],
  "CORS everywhere": [besidesRoutes, /is not open to other origins/],
  "a 500 for a 400": [idempotency, /leaves its key free/],
  "404s that repeat the path": [routing, /\/(JOBS|DATA|output).* is nowhere/i],
  "two jobs for one idempotency key": [races, /with one idempotency key make one job/],
  "any request replays a key": [idempotency, /another request/],
  "refused requests bind their key": [idempotency, /leaves its key free/],
  "a used upload that looks unknown": [races, /fifty jobs for one upload/],
  "any key reads any job": [ownership, /finds nothing on any route/],
  "deletion that only says so": [outcomes, /its poll after deletion/],
  "files that outlive their deletion": [files, /after deletion every URL/],
  "revoked and expired keys that work": [keys, /an expired key is|before its first use/],
  "a finished upload that looks unfinished": [transfers, /PUT: upload_already_completed/],
  "unlimited transfers": [transfers, /five transfers may begin/],
  "failed jobs without an error code": [outcomes, /^(input|prompt|instructions) sandbox:fail:(?!internal_error)/],
}

/** The rows that pass although they must fail; `[]` is expected. */
const blindRows = async (
  settings: ServiceSettings,
  [table, pattern]: readonly [Table, RegExp],
): Promise<ReadonlyArray<string>> => {
  const rows = table.rows.filter(({ name }) => pattern.test(name))
  if (rows.length === 0) return [`no row is called ${pattern.source}`]
  const service = await startService("memory", { ...(table === transfers ? uploadSettings : {}), ...settings })
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

const bugs = { ...wordingBugs, ...portBugs }

describe("the tables find", () => {
  it("bugs of all kinds: each must be found by its rows", () => {
    expect(Object.keys(plan).toSorted()).toEqual(Object.keys(bugs).toSorted())
  })
  it.concurrent.each(Object.entries(bugs))("%s", async (name, settings) => {
    expect(await blindRows(settings, plan[name]!)).toEqual([])
  })
})

it("the comparison of two stores finds differences that no row checks", async () => {
  const services = await Promise.all([{}, otherWording].map((settings) => startService("memory", settings)))
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
