import { Effect } from "effect"
import pg from "pg"
import { onTestFinished, vi } from "vitest"
import { PostgresStores } from "@kiln/adapter-postgres"
import { callersPool, freshDatabase, postgresServer, withClient } from "@kiln/postgres-lab"
import { Session } from "../../packages/adapter-postgres/src/connection/Session.ts"
import { compiled } from "../../packages/adapter-postgres/src/Statement.ts"
import { makeTemplate } from "../../packages/adapter-postgres/test/support/places.ts"
import { onEffectClock } from "../../packages/adapter-postgres/test/support/virtualTime.ts"
import { statementName } from "./statementName.ts"
import { plantedTexts, type Subject } from "./Subject.ts"

interface FunctionRow {
  readonly name: string
  readonly body: string
  readonly text: string
  readonly trigger: boolean
}

const readFunctions = `SELECT proname AS name, prosrc AS body, pg_get_functiondef(oid) AS text, prorettype = 'trigger'::regtype AS trigger
  FROM pg_proc WHERE pronamespace = 'kiln'::regnamespace`
const readTables = `SELECT relname AS name FROM pg_class WHERE relnamespace = 'kiln'::regnamespace AND relkind = 'r'`
const readSequences = `SELECT relname AS name FROM pg_class WHERE relnamespace = 'kiln'::regnamespace AND relkind = 'S'`

/** Text that makes a database as it is now, after changes of its rows. */
const emptyingText = async (client: pg.Client): Promise<string> => {
  const { rows: sequences } = await client.query<{ name: string }>(readSequences)
  const texts = sequences.map(({ name }) => `ALTER SEQUENCE "kiln".${name} RESTART;`)
  for (const { name } of (await client.query<{ name: string }>(readTables)).rows) {
    texts.push(`DELETE FROM "kiln".${name};`)
    const { rows } = await client.query<{ text: string | null }>(
      `SELECT json_agg(row)::text AS text FROM "kiln".${name} AS row`,
    )
    const text = rows[0]?.text
    if (text != null)
      texts.push(
        `INSERT INTO "kiln".${name} SELECT * FROM json_populate_recordset(NULL::"kiln".${name}, ${client.escapeLiteral(text)});`,
      )
  }
  return texts.join("")
}

/** A copy of a database, which is emptied for each check: that takes a tenth of the time of a new one. */
const openCopy = async (base: string, emptying: string) => {
  const database = await freshDatabase({ template: base })
  const client = new pg.Client({ connectionString: database.url })
  client.on("error", () => undefined)
  await client.connect()
  // An endless loop ends.
  await client.query(`ALTER DATABASE ${database.name} SET statement_timeout = '15s'`)
  // Without triggers, which refuse much of that.
  await client.query("SET session_replication_role = replica")
  const pool = callersPool(database.url, 8)
  return {
    run: (text: string) => client.query(text),
    stores: async () => {
      await client.query(emptying)
      return onEffectClock(
        PostgresStores.layer({ pool, notifications: false, noteLanesEveryMs: 0 }),
        async (now) => void (await client.query(`UPDATE "kiln".test_clock SET now = $1`, [now])),
      )
    },
    close: async () => {
      await database.dispose()
      await client.end().catch(() => undefined)
    },
  }
}

const called = (text: string): ReadonlyArray<string> =>
  [...text.matchAll(/"kiln"\.(\w+)\(/g)].map(([, name = ""]) => name)

/** Functions are replaced in the database on which stores are opened, statements where they are sent. */
export const postgresSubject = async (names: ReadonlyArray<string>): Promise<Subject> => {
  const base = await makeTemplate()
  const url = Object.assign(new URL(await postgresServer()), { pathname: `/${base}` }).href
  const { emptying, functions } = await withClient(url, async (client) => ({
    functions: (await client.query<FunctionRow>(readFunctions)).rows,
    emptying: await emptyingText(client),
  }))
  /** Functions that a text calls, also through others. */
  const calledFrom = (text: string, found = new Set<string>()): ReadonlySet<string> => {
    for (const name of called(text))
      if (!found.has(name)) calledFrom(functions.find((one) => one.name === name)?.body ?? "", found.add(name))
    return found
  }
  const texts = new Map(functions.filter(({ name }) => names.includes(name)).map(({ body, name }) => [name, body]))
  const byTriggers = functions.filter(({ trigger }) => trigger).flatMap(({ body, name }) => [name, ...calledFrom(body)])
  const nameOf = new Map<string, string>()
  let reached = new Set(byTriggers)
  let planted = plantedTexts([])
  let isInvalid = false
  let copy = await openCopy(base, emptying)
  onTestFinished(() => copy.close())
  const reach = (sql: string): void => {
    const name = nameOf.get(sql) ?? statementName("adapter-postgres", sql)
    nameOf.set(sql, name)
    if (names.includes(name.split(" ")[0] ?? "")) texts.set(name, sql)
    for (const one of [name, ...calledFrom(sql)]) reached.add(one)
  }
  const spyOn = <Verb extends "all" | "run" | "batch" | "runBatch">(verb: Verb): void => {
    const send = Session.prototype[verb] as (this: Session, ...given: Parameters<Session[Verb]>) => Promise<unknown>
    vi.spyOn(Session.prototype, verb).mockImplementation(function (this: Session, ...given: Parameters<Session[Verb]>) {
      const own = compiled(given[0])
      const { sql } = own
      reach(sql)
      // A session reads the text before it waits for anything.
      Object.assign(own, { sql: planted.get(nameOf.get(sql) ?? "")?.by ?? sql })
      const sent = send.apply(this, given)
      Object.assign(own, { sql })
      return sent.catch((error: unknown) => {
        // A syntax error, or an operator that does not exist for these types.
        if (planted.size > 0 && String(Reflect.get(Object(error), "code")).startsWith("42")) isInvalid = true
        throw error
      })
    } as never)
  }
  spyOn("all")
  spyOn("run")
  spyOn("batch")
  spyOn("runBatch")
  return {
    place: Effect.promise(() => copy.stores()),
    texts: () => texts,
    reached: () => {
      const now = reached
      reached = new Set(byTriggers)
      return now
    },
    plant: async (next) => {
      planted = plantedTexts(next)
      isInvalid = false
      await copy.close()
      copy = await openCopy(base, emptying)
      const texts = [...planted].map(([name, { by, text }]) => {
        const definition = functions.find((one) => one.name === name)?.text
        return definition?.replace(text, () => by) ?? `PREPARE "${name}" AS ${by}`
      })
      return copy.run(texts.join(";")).then(
        () => true,
        () => false,
      )
    },
    isInvalid: () => isInvalid,
  }
}
