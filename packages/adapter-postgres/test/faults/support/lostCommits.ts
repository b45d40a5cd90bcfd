import { isDeepStrictEqual } from "node:util"
import { Effect } from "effect"
import pg from "pg"
import { freshDatabase, tcpProxy } from "@kiln/postgres-lab"
import { postgresMigrations } from "../../../src/index.ts"
import { takeOverClock } from "../../support/virtualTime.ts"
import { openStores } from "./openStores.ts"
import type { WritingVerb } from "./writingVerbs.ts"

/** What befalls the COMMIT of a verb. `none` is how it should look afterwards. */
type CommitFault = "none" | "answer lost" | "cut before"

/** Where databases are made, and from what. */
export interface Place {
  readonly server: string
  readonly template: string
}

/** Names of columns whose numbers a sequence gives out, where a transaction that is undone leaves a gap, or that are random. */
const given = new Set(["seq", "job_seq", "lane_id", "id", "price_id", "finished_seq", "claim_id"])

const rowOf = (row: Readonly<Record<string, unknown>>): string =>
  JSON.stringify(Object.entries(row).filter(([name, value]) => !given.has(name) || typeof value === "string"))

/** Tables whose rows are spread by chance or have random values, with what reads the rest. */
const summed: Readonly<Record<string, string>> = {
  kept_bytes: `SELECT project_id, mode, sum(uploads) AS uploads, sum(files) AS files FROM "kiln".kept_bytes GROUP BY 1, 2`,
  board_version: `SELECT count(*) AS versions FROM "kiln".board_version`,
}

/** Every row of every table but for the numbers of sequences, told from each other and not in any order. */
const everything = async (client: pg.Client): Promise<Readonly<Record<string, ReadonlyArray<string>>>> => {
  const { rows } = await client.query<{ name: string }>(
    "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'kiln' AND table_type = 'BASE TABLE' ORDER BY 1",
  )
  const tables: Record<string, ReadonlyArray<string>> = {}
  for (const { name } of rows) {
    const found = await client.query<{ row: Record<string, unknown> }>(
      `SELECT to_jsonb(t) AS row FROM (${summed[name] ?? `SELECT * FROM "kiln"."${name}"`}) t`,
    )
    tables[name] = found.rows.map(({ row }) => rowOf(row)).toSorted()
  }
  return tables
}

/** A migrated database whose clock is the test's, to be copied; on this server. */
export const makeTemplate = async (server: string): Promise<Place & AsyncDisposable> => {
  const template = await freshDatabase({ server })
  await Effect.runPromise(postgresMigrations.apply({ url: template.url }))
  await takeOverClock(template.url)
  return { server, template: template.name, [Symbol.asyncDispose]: template.dispose }
}

/** Brings a verb about under a fault: what it answered, or failed with, and all the database holds afterwards. */
const performed = async ({ server, template }: Place, verb: WritingVerb, fault: CommitFault) => {
  await using database = await freshDatabase({ server, template })
  await using proxy = await tcpProxy(database.url)
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  try {
    await using stores = await openStores({ url: proxy.url, poolSize: 3, migrate: false, noteLanesEveryMs: 0 })
    let now = 1_000_000
    const advance = async (ms: number) =>
      void (await client.query(`UPDATE "kiln".test_clock SET now = $1`, [(now += ms)]))
    await advance(0)
    const act = await verb.run({ stores, advance })
    const done =
      fault === "answer lost"
        ? proxy.dropAnswer(verb.commit)
        : fault === "cut before"
          ? proxy.cutBefore(verb.commit)
          : undefined
    const answer = await Effect.runPromise(
      Effect.catchCause(act(), (cause) => Effect.succeed({ failedWith: String(cause) })),
    )
    await done
    return { answer, tables: await everything(client) }
  } finally {
    await client.end()
  }
}

/** In what a verb under a fault differs from the same without: nothing, where its step was performed once and answered as it was. */
export const differences = async (
  place: Place,
  verb: WritingVerb,
  fault: Exclude<CommitFault, "none">,
): Promise<ReadonlyArray<string>> => {
  const expected = await performed(place, verb, "none")
  const found = await performed(place, verb, fault)
  const tables = Object.keys(expected.tables).filter(
    (name) => !isDeepStrictEqual(found.tables[name], expected.tables[name]),
  )
  const answered = isDeepStrictEqual(found.answer, expected.answer)
    ? []
    : [`${verb.name}: answered ${JSON.stringify(found.answer)}, not ${JSON.stringify(expected.answer)}`]
  return [
    ...answered,
    ...tables.map(
      (name) => `${verb.name}: ${name} is ${found.tables[name]?.join()}, not ${expected.tables[name]?.join()}`,
    ),
  ]
}
