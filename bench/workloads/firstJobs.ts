import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { evaluate, outputOf, processMs } from "./programRuns.ts"
import { type Bench, subjectsOf, type Workload } from "./Workload.ts"

/** Programs of other engines that accept a job, in their shortest form. */
const firstJobOf = (name: string, place: string): string => {
  const at = JSON.stringify(place)
  if (name === "plainjob, fsync")
    return `import Database from "better-sqlite3"
      import { better, defineQueue } from "plainjob"
      const database = new Database(${at})
      const silent = { error() {}, warn() {}, info() {}, debug() {} }
      const queue = defineQueue({ connection: better(database), logger: silent })
      database.pragma("synchronous = FULL")
      queue.add("echo", { said: "hello" })
      process.exit(0)`
  if (name === "pg-boss")
    return `import { PgBoss } from "pg-boss"
      const boss = new PgBoss({ connectionString: ${at} })
      await boss.start()
      await boss.createQueue("echo")
      await boss.send("echo", { said: "hello" })
      process.exit(0)`
  return `import { Logger, makeWorkerUtils } from "graphile-worker"
    const utils = await makeWorkerUtils({ connectionString: ${at}, logger: new Logger(() => () => {}) })
    await utils.migrate()
    await utils.addJob("echo", { said: "hello" })
    process.exit(0)`
}

const firstJobOfKiln = (built: string, store: "sqlite" | "postgres", place: string): string => {
  const [core, adapter] = ["core", `adapter-${store}`].map((name) =>
    JSON.stringify(pathToFileURL(join(built, "packages", name, "dist/index.js")).href),
  )
  const opened =
    store === "sqlite"
      ? `sqliteStore({ path: ${JSON.stringify(place)} })`
      : `postgresStore({ url: ${JSON.stringify(place)}, migrate: true })`
  return `import { createEngine, jobKind } from ${core}
    import { ${store}Store } from ${adapter}
    const request = { "~standard": { version: 1, vendor: "own", validate: (value) => ({ value }) } }
    const echo = jobKind({ name: "echo", request, run: async ({ request }) => ({ output: request }) })
    const engine = await createEngine({ store: ${opened}, kinds: [echo] })
    await engine.submit("echo", { said: "hello" })
    process.exit(0)`
}

const firstPeers = { sqlite: ["plainjob, fsync"], postgres: ["pg-boss", "graphile-worker"] } as const

/** A program from its start until its first job is accepted. The first of its runs, which is not counted, prepares the database. */
export const firstJobs = (bench: Bench, store: "sqlite" | "postgres"): Workload => ({
  id: `${store}/first-job`,
  group: store === "sqlite" ? "SQLite" : "Postgres",
  title: "a program until its first job is accepted",
  metrics: [{ key: "took", title: "", unit: "ms" }],
  isRealistic: true,
  subjects: subjectsOf(bench, firstPeers[store], false),
  run: async (subject) => {
    await using database = await bench.place(store)
    const isKiln = subject.role === "kiln" || subject.role === "base"
    const code = isKiln
      ? firstJobOfKiln(bench.kilnOf(subject), store, database.place)
      : firstJobOf(subject.name, database.place)
    const run = () => outputOf(evaluate(code))
    run()
    return { took: processMs(bench, run) }
  },
})
