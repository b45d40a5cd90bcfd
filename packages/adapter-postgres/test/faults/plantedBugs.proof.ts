import pg from "pg"
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest"
import { postgresServer } from "@kiln/postgres-lab"
import { forgottenCommit } from "./support/forgottenCommit.ts"
import { differences, makeTemplate } from "./support/lostCommits.ts"
import { writingVerbs } from "./support/writingVerbs.ts"

/** A row of the queries that identify a transaction, or ask what happened to it. */
type Told = Readonly<Record<"xid" | "life", string>> | Readonly<Record<"fate" | "now", string>>

/** Changes what the server tells of transactions. */
const telling = (change: (told: Told) => Partial<Told>): void => {
  const query: typeof pg.Client.prototype.query = Reflect.get(pg.Client.prototype, "query")
  const queryAnd = function (this: pg.Client, ...given: Array<unknown>) {
    const [text] = given
    const answer: unknown = Reflect.apply(query, this, given)
    if (typeof text !== "string" || !text.includes("pg_stat_get_bgwriter_stat_reset_time")) return answer
    return (answer as Promise<pg.QueryResult<Told>>).then((result) => ({
      ...result,
      rows: result.rows.map((told) => ({ ...told, ...change(told) })),
    }))
  }
  vi.spyOn(pg.Client.prototype, "query").mockImplementation(queryAnd)
}

let template: Awaited<ReturnType<typeof makeTemplate>>
beforeAll(async () => {
  template = await makeTemplate(await postgresServer())
})
afterAll(() => template[Symbol.asyncDispose]())
afterEach(() => vi.restoreAllMocks())

// Promise 1 of docs/invariants.md.
describe("lost answers of Postgres show that", () => {
  it.each([
    ["a claim that was committed is made again", "claimJobs, of lost workers", "aborted", "answer lost"],
    ["a transfer that was committed is begun again", "claimUpload", "aborted", "answer lost"],
    ["a commit that never happened counts as done", "cancelJobs", "committed", "cut before"],
  ] as const)("%s", async (_, name, fate, fault) => {
    const verb = writingVerbs.find((one) => one.name === name)
    if (verb === undefined) throw new Error(`no verb ${name}`)
    telling((told) => ("fate" in told ? { fate } : {}))
    expect((await differences(template, verb, fault)).join("\n")).toContain(`${name}: `)
  })

  it("the number of a transaction is trusted after a crash, although it belongs to another", async () => {
    telling((told) => ("fate" in told ? { now: "one life" } : { life: "one life" }))
    expect(await forgottenCommit()).toMatchObject({ answer: ["Created"], stored: 0 })
  })
})
