import { execFile } from "node:child_process"
import { join } from "node:path"
import { Effect, type Layer } from "effect"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { PostgresStores } from "@kiln/adapter-postgres"
import { SqliteStores } from "@kiln/adapter-sqlite"
import { type Charge, chargeFor, Decimal } from "@kiln/core/domain"
import { JobStore, type LedgerEntry, Switchboard } from "@kiln/core/ports"
import { freshDatabase, readRows, tcpProxy } from "@kiln/postgres-lab"
import { fixtures, type Stores } from "@kiln/conformance"
import { billingFormats } from "../src/commands/billingFormats.ts"
import { parseMoment } from "../src/commands/billingMoment.ts"
import { changeDatabase } from "./support/changeDatabase.ts"
import { run, temporaryDirectory } from "@kiln/service-lab"

const { completionOf, jobId, newJob, newLiveJob, noLimits } = fixtures

/** Digits far behind those that a float has. */
const cent = "0.0000000000000000000001"
const oddKind = 'odd, "quoted"\nkind'
const kinds = ["speech_synthesis", oddKind]
const count = 2_500
const batchSize = 250

/** Job 1 has no line item; every third one has two meters. */
const chargeOf = (n: number): Charge => {
  const unitAmounts = { input_characters: cent, ...(n % 3 === 0 ? { output_tokens: "0.1" } : {}) }
  const price = { name: "svc-audio", version: 1, currency: n % 2 === 0 ? "usd" : "eur", unitAmounts }
  if (n === 1) return { currency: price.currency, amount: "0", lineItems: [] }
  return chargeFor(price, { input_characters: n, ...(n % 3 === 0 ? { output_tokens: n % 7 } : {}) })
}

const seedBoard = Effect.gen(function* () {
  const board = yield* Switchboard
  for (const name of ["ai", "audio"] as const) yield* board.setSwitch(name, true)
  yield* board.setPrice({ name: "svc-audio", currency: "usd", unitAmounts: { input_characters: cent } })
  yield* board.activatePrice("svc-audio", true)
  yield* board.publishWorker({ workerId: "w", liveKinds: kinds, providers: [], ttlMs: 3_600_000 })
})

/** Live jobs from `first` on, all but one done and charged in one instant; that one fails. With them a sandbox job. */
const seedBatch = Effect.fnUntraced(function* (first: number) {
  const jobs = yield* JobStore
  const numbers = Array.from({ length: batchSize }, (_, n) => first + n)
  const failing = 10_000 + first
  yield* jobs.createJobs([
    ...[...numbers, failing].map((n) => {
      const kind = n === 5 ? oddKind : "speech_synthesis"
      const gate = { ...fixtures.audioGate, liveWorker: null }
      return newLiveJob(n, { kind, gate, projectId: fixtures.projectId(n % 4), keyId: fixtures.keyId(n % 8) })
    }),
    newJob(20_000 + first),
  ])
  const { claims } = yield* jobs.claimJobs({
    runnable: kinds.flatMap((kind) => (["live", "sandbox"] as const).map((mode) => ({ kind, kindVersion: 1, mode }))),
    limits: noLimits,
    limit: 1_000,
    leaseDurationMs: 60_000,
    maxLostWorkers: 3,
  })
  const failed = claims.find(({ job }) => job.id === jobId(failing))
  if (failed === undefined || claims.length !== batchSize + 2) throw new Error("not all jobs were claimed")
  yield* jobs.failJobs([{ jobId: failed.job.id, token: failed.token, errorCode: "provider_rejected" }])
  yield* jobs.completeJobs(
    claims
      .filter((claim) => claim !== failed)
      .map((claim) => {
        const charge = claim.job.mode === "live" ? chargeOf(Number(claim.job.id.slice("job_".length))) : null
        return completionOf(claim, { charge })
      }),
  )
})

const seed = Effect.gen(function* () {
  yield* seedBoard
  for (let first = 1; first <= count; first += batchSize) {
    yield* seedBatch(first)
    // The next batch is charged later, by the clock of either database.
    yield* Effect.sleep(2)
  }
  return (yield* (yield* JobStore).listCharges({ from: 0, to: Number.MAX_SAFE_INTEGER, after: null, limit: 10_000 }))
    .entries
})

interface Store {
  readonly environment: Readonly<Record<string, string>>
  readonly layer: Layer.Layer<Stores, unknown>
  /** Runs SQL behind kiln's back; tables by their names alone. */
  readonly change: (sql: string) => Promise<unknown>
  readonly remove: () => Promise<void>
}

const sqlite = async (): Promise<Store> => {
  const data = temporaryDirectory()
  return {
    environment: { KILN_DATA_DIR: data.path },
    layer: SqliteStores.layer({ path: join(data.path, "kiln.db") }),
    change: async (sql) => changeDatabase(data.path, sql),
    remove: async () => void data[Symbol.dispose](),
  }
}

const postgres = async (): Promise<Store> => {
  const database = await freshDatabase()
  return {
    environment: { DATABASE_URL: database.url },
    layer: PostgresStores.layer({ url: database.url, poolSize: 2, notifications: false }),
    // What it opens for reading is closed first.
    change: (sql) => readRows(database.url, [`ROLLBACK; SET search_path = kiln; ${sql}`]),
    remove: () => database.dispose(),
  }
}

const sum = (amounts: ReadonlyArray<string>): string =>
  Decimal.format(amounts.map(Decimal.parse).reduce(Decimal.add, Decimal.zero))

const iso = (time: number): string => new Date(time).toISOString()
const wholeSeconds = (time: number): string => iso(Math.floor(time / 1_000) * 1_000).replace(".000Z", "Z")
const snake = ({ amount, meter, quantity, unitAmount }: Charge["lineItems"][number]) => ({
  meter,
  quantity,
  unit_amount: unitAmount,
  amount,
})
const expectedObject = (entry: LedgerEntry) => ({
  job_id: entry.jobId,
  project_id: entry.projectId,
  key_id: entry.keyId,
  type: entry.kind,
  finished_at: wholeSeconds(entry.chargedAt),
  currency: entry.charge.currency,
  amount: entry.charge.amount,
  line_items: entry.charge.lineItems.map(snake),
})

/** Reads CSV according to RFC 4180. Throws for anything else. */
const parseCsv = (text: string): ReadonlyArray<ReadonlyArray<string>> => {
  const rows: Array<Array<string>> = [[]]
  const field = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/y
  while (field.lastIndex < text.length) {
    const at = field.lastIndex
    const found = field.exec(text)
    if (found === null) throw new Error(`no CSV at ${at}: ${text.slice(at, at + 80)}`)
    rows.at(-1)?.push(found[1]?.replaceAll('""', '"') ?? found[2] ?? "")
    if (found[3] === "\r\n") rows.push([])
  }
  expect(rows.pop(), "ends with a whole row").toEqual([])
  return rows
}

const launcher = join(import.meta.dirname, "../bin/kiln.mjs")

/** Runs `kiln ARGS` in a shell and pipes its output into a command. Its exit code is the last line on standard error. */
const inShell = (args: string, then: string, environment: Store["environment"]) =>
  new Promise<{ readonly stdout: string; readonly stderr: string }>((resolve) => {
    const kiln = `"${process.execPath}" --conditions=@kiln/source "${launcher}" ${args}`
    const env = { PATH: process.env["PATH"], ...environment }
    execFile("sh", ["-c", `{ ${kiln}; echo "exit $?" >&2; } ${then}`], { env }, (_error, stdout, stderr) =>
      resolve({ stdout, stderr }),
    )
  })

const endsEarly =
  /^The export ends at (\S+): later charges may still be added\. Begin the next export with --from \1\n$/

describe.each([
  ["SQLite", sqlite],
  ["Postgres", postgres],
])("kiln billing export, from %s", (_name, open) => {
  let store: Store
  let ledger: ReadonlyArray<LedgerEntry>
  const exported = async (from: string, to: string, format: string) => {
    const args = ["billing", "export", "--from", from, "--to", to, "--format", format]
    const { exit, stderr, stdout } = await run(args, store.environment)
    expect(exit).toBe(0)
    expect(stderr, "an end that is still to come").toMatch(to === ever && from !== ever ? endsEarly : /^$/)
    return stdout
  }
  const objects = async (from: string, to: string) => {
    const text = await exported(from, to, "jsonl")
    expect(text === "" || text.endsWith("\n")).toBe(true)
    return text
      .split("\n")
      .slice(0, -1)
      .map((line) => JSON.parse(line))
  }
  const [always, ever] = ["1970-01-01", "9999-12-31"]

  beforeAll(async () => {
    store = await open()
    ledger = await Effect.runPromise(Effect.provide(seed, store.layer))
  }, 120_000)
  afterAll(() => store.remove())

  it("jsonl is the ledger, one object per job, over many pages, and sums exactly", async () => {
    expect(ledger).toHaveLength(count)
    const rows = await objects(always, ever)
    expect(rows).toEqual(ledger.map(expectedObject))
    const numbers = Array.from({ length: count }, (_, n) => n + 1)
    const expected = sum(numbers.map((n) => chargeOf(n).amount))
    expect(expected).toMatch(/^\d+\.\d{22}$/)
    expect(sum(rows.map((row) => row.amount))).toBe(expected)
    expect(sum(rows.flatMap((row) => row.line_items.map((item: { amount: string }) => item.amount)))).toBe(expected)
    expect(Object.keys(rows[0])).toEqual(
      "job_id project_id key_id type finished_at currency amount line_items".split(" "),
    )
  })

  it("csv is the same, one row per line item, and one for a job without any", async () => {
    const [header, ...rows] = parseCsv(await exported(always, ever, "csv"))
    expect(header?.join()).toBe("job_id,project_id,key_id,type,finished_at,currency,meter,quantity,unit_amount,amount")
    const expected = ledger.flatMap((entry) => {
      const { amount: _amount, line_items: items, ...job } = expectedObject(entry)
      const none = [{ meter: "", quantity: "", unit_amount: "", amount: entry.charge.amount }]
      return (items.length === 0 ? none : items).map((item) => [
        ...Object.values(job),
        item.meter,
        String(item.quantity),
        item.unit_amount,
        item.amount,
      ])
    })
    expect(rows).toEqual(expected)
    expect(rows.filter((row) => row[0] === jobId(1)).map((row) => row.slice(6))).toEqual([["", "", "", "0"]])
    expect(rows.filter((row) => row[0] === jobId(3))).toHaveLength(2)
    expect(rows.find((row) => row[0] === jobId(5))?.[3]).toBe(oddKind)
    expect(sum(rows.map((row) => row[9] ?? ""))).toBe(sum(ledger.map((entry) => entry.charge.amount)))
  })

  it("treats --from as inclusive and --to as exclusive, to the millisecond, with any offset", async () => {
    const times = [...new Set(ledger.map((entry) => entry.chargedAt))]
    expect(times.length).toBeGreaterThan(3)
    const [, second = 0, third = 0, fourth = 0] = times
    const idsBetween = (from: number, to: number) =>
      ledger.filter((entry) => entry.chargedAt >= from && entry.chargedAt < to).map((entry) => entry.jobId)
    const ids = async (from: string, to: string) => (await objects(from, to)).map((row) => row.job_id)
    const within = await ids(iso(second), iso(fourth))
    expect(within).toEqual(idsBetween(second, fourth))
    expect(within.length).toBeGreaterThan(batchSize)
    expect(await ids(iso(second + 1), iso(fourth + 1))).toEqual(idsBetween(third, fourth + 1))
    const inTokyo = iso(third + 9 * 3_600_000).replace("Z", "+09:00")
    expect(await ids(inTokyo, iso(third).replace("Z", "1Z"))).toEqual(idsBetween(third, third + 1))
  })

  it("ends where the ledger is complete, and the next export begins there: each charge is in exactly one", async () => {
    const first = await run(["billing", "export", "--from", always, "--to", ever, "--json"], store.environment)
    const { until } = JSON.parse(first.stderr)
    expect(first.stdout.split("\n")).toHaveLength(count + 1)
    expect(await objects(until, ever)).toEqual([])
    expect(await objects(always, until)).toHaveLength(count)
    const past = await run(["billing", "export", "--from", always, "--to", until, "--json"], store.environment)
    expect(JSON.parse(past.stderr)).toEqual({ until, complete: true })
  })

  it("of an empty period is empty, except for the header", async () => {
    expect(await exported(ever, ever, "jsonl")).toBe("")
    expect(await exported("1970-01-01", "1970-01-02", "jsonl")).toBe("")
    expect(await exported("1970-01-01", "1970-01-02", "csv")).toMatch(/^job_id,[a-z_,]*,amount\r\n$/)
  })

  it("prints its own format with --json too, and jsonl unless told otherwise", async () => {
    const args = ["billing", "export", "--from", always, "--to", ever, "--json"]
    const [plain, csv] = [
      await run(args, store.environment),
      await run([...args, "--format", "csv"], store.environment),
    ]
    expect([plain.exit, csv.exit]).toEqual([0, 0])
    for (const { stderr } of [plain, csv])
      expect(JSON.parse(stderr)).toEqual({ until: expect.stringMatching(/^\d{4}-.*\.\d{3}Z$/), complete: false })
    expect(plain.stdout).toBe(await exported(always, ever, "jsonl"))
    expect(csv.stdout).toBe(await exported(always, ever, "csv"))
  })

  it("stops when its reader goes away, and reports output that cannot be written", async () => {
    const args = `billing export --from ${always} --to ${ever} --format csv`
    const read = await inShell(args, "| head -n 2", store.environment)
    expect(read.stdout.split("\r\n")).toHaveLength(3)
    expect(read.stderr).toMatch(/^(The export ends at .*\n)?exit 0\n$/)
    const full = await inShell(args, "> /dev/full", store.environment)
    expect(full.stderr).toMatch(/^kiln: cannot write the output: ENOSPC.*\nexit 1\n$/)
  })

  // Only of a server can be told what it was asked.
  it.each(open === postgres ? ["reads no more pages than its reader"] : [])("%s", async () => {
    const proxy = await tcpProxy(store.environment["DATABASE_URL"] ?? "")
    try {
      const pages = async (then: string) => {
        proxy.resetCounts()
        await inShell(`billing export --from ${always} --to ${ever}`, then, { DATABASE_URL: proxy.url })
        return [...proxy.statements()].flatMap(([sql, times]) => (/^select .*"charges"/s.test(sql) ? [times] : []))
      }
      expect(await pages("> /dev/null")).toEqual([count / 500 + 1])
      // A pipe holds less than a page. The one that is written by then is the last.
      expect(await pages("| head -n 1")).toEqual([1])
    } finally {
      await proxy.close()
    }
  })
})

describe("kiln billing", () => {
  const day = ["--from", "2026-11-01", "--to", "2026-11-02"]
  it.each([
    [["export", "--to", "2026-11-01"], /^kiln: Missing required flag: --from$/m],
    [["export", "--from", "2026-11-01"], /^kiln: Missing required flag: --to$/m],
    [["export", ...day, "--format", "xml"], /xml/],
    [
      ["export", "--from", "yesterday", "--to", "2026-11-01"],
      /^kiln: --from must be a date like 2026-11-01, [^\n]+\n$/,
    ],
    [["export", "--from", "2026-11-01", "--to", "2026-02-30"], /^kiln: --to must be a date like 2026-11-01, [^\n]+\n$/],
    [["export", "--from", "2026-11-02", "--to", "2026-11-01"], /^kiln: --from must not be later than --to\n$/],
    [[], /USAGE/],
  ])("misused as %j exits with 2 and writes nothing to standard output", async (args, message) => {
    using data = temporaryDirectory()
    const { exit, stderr, stdout } = await run(["billing", ...args, "--json"], { KILN_DATA_DIR: data.path })
    expect({ exit, stdout }).toEqual({ exit: 2, stdout: "" })
    expect(stderr).toMatch(message)
  })

  it("writes nothing if the store cannot be read", async () => {
    const { exit, stderr, stdout } = await run(["billing", "export", ...day, "--format", "csv"], {
      DATABASE_URL: "postgres://u@127.0.0.1:1/x",
    })
    expect({ exit, stdout }).toEqual({ exit: 1, stdout: "" })
    expect(stderr).toMatch(/^kiln: cannot open the Postgres database .*\n$/)
  })
})

describe("dates", () => {
  it.each([
    ["2026-11-01", "2026-11-01T00:00:00.000Z"],
    ["2026-11-01T00:00:00Z", "2026-11-01T00:00:00.000Z"],
    ["2026-11-01t12:34:56.7z", "2026-11-01T12:34:56.700Z"],
    ["2026-11-01T12:34:56.789Z", "2026-11-01T12:34:56.789Z"],
    ["2026-11-01T12:34:56.7890Z", "2026-11-01T12:34:56.789Z"],
    ["2026-11-01T12:34:56.78900001Z", "2026-11-01T12:34:56.790Z"],
    ["2026-11-01T00:00:00+02:00", "2026-10-31T22:00:00.000Z"],
    ["2026-10-31T18:30:00-05:30", "2026-11-01T00:00:00.000Z"],
    ["2026-11-01T00:00:00-00:00", "2026-11-01T00:00:00.000Z"],
    ["2024-02-29", "2024-02-29T00:00:00.000Z"],
    ["0001-01-01", "0001-01-01T00:00:00.000Z"],
  ])("%s is %s", (text, expected) => {
    expect(iso(parseMoment(text) ?? Number.NaN)).toBe(expected)
  })

  it.each([
    "",
    "2026",
    "2026-11",
    "2026-13-01",
    "2026-00-01",
    "2026-02-29",
    "2026-11-31",
    "2026-11-1",
    "2026-11-01T00:00:00",
    "2026-11-01T24:00:00Z",
    "2026-11-01T00:60:00Z",
    "2026-11-01T00:00:60Z",
    "2026-11-01T00:00Z",
    "2026-11-01 00:00:00Z",
    "2026-11-01Z",
    "2026-11-01T00:00:00+0200",
    "2026-11-01T00:00:00+24:00",
    "2026-11-01T00:00:00.Z",
    " 2026-11-01",
    "2026-11-01\n",
    "1793491200",
    "Nov 1 2026",
  ])("%j is rejected", (text) => {
    expect(parseMoment(text)).toBe(undefined)
  })
})

it.each([
  ["plain", "plain"],
  ['a "quote" alone', '"a ""quote"" alone"'],
  ["a, comma", '"a, comma"'],
  ["a\rreturn", '"a\rreturn"'],
])("a csv field is quoted if necessary: %j", (kind, field) => {
  const entry: LedgerEntry = {
    jobId: "job_1",
    projectId: "prj_1",
    keyId: "key_1",
    kind,
    chargedAt: 0,
    charge: { currency: "usd", amount: "0", lineItems: [] },
  }
  expect(billingFormats.csv.entry(entry)).toBe(`job_1,prj_1,key_1,${field},1970-01-01T00:00:00Z,usd,,,,0\r\n`)
})
