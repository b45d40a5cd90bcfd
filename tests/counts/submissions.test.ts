import { postgresStore } from "@kiln/adapter-postgres"
import { createEngine, jobKind } from "@kiln/core"
import { openTelemetry } from "@kiln/core/opentelemetry"
import { freshDatabase, tcpProxy, type TcpProxy, withClient } from "@kiln/postgres-lab"
import { memoryBlobs } from "@kiln/testing"
import * as api from "@opentelemetry/api"
import type pg from "pg"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { statementsOf, untilQuiet } from "./statementsOf.ts"

const anything = z.object({ n: z.number() })

const run = () => Promise.resolve({ output: {} })
const free = jobKind({ name: "free", request: anything, run })
const paid = jobKind({
  name: "paid",
  request: anything,
  meters: ["pages"],
  price: "print",
  maxUsage: () => ({ pages: 1 }),
  run,
})
const heard = jobKind({
  name: "heard",
  request: z.object({ n: z.number(), file: z.string() }),
  upload: "file",
  run,
})

const open = (store: ReturnType<typeof postgresStore>, traced: boolean, queueCap: number) =>
  createEngine({
    store,
    blobs: memoryBlobs(),
    kinds: [free, paid, heard],
    autoStart: false,
    log: false,
    ...(traced && { telemetry: openTelemetry(api) }),
    settings: { queueCap, sweepIntervalMs: 3_600_000, pruneIntervalMs: 3_600_000 },
  })

type Engine = Awaited<ReturnType<typeof open>>

const unique = { by: ["n"], while: "unfinished" } as const

/** A kind of submission. */
interface Submission {
  readonly statements: number
  readonly traced?: boolean
  readonly queueCap?: number
  readonly arrange?: (engine: Engine) => Promise<unknown>
  /** Prepares submission `n` and returns the call that is counted. */
  readonly submit: (engine: Engine, n: number, client: pg.Client) => Promise<() => Promise<unknown>>
}

const submitting =
  (submit: (engine: Engine, n: number, transaction: pg.Client) => Promise<unknown>): Submission["submit"] =>
  (engine, n, client) =>
    Promise.resolve(() => submit(engine, n, client))

const setPrice = (engine: Engine) =>
  engine.operator.setPrice({ name: "print", currency: "usd", unitAmounts: { pages: "0.001" } })

const live = submitting((engine, n) => engine.submit("paid", { n }, { mode: "live" }))

const submissions: Readonly<Record<string, Submission>> = {
  sandbox: { statements: 1, submit: submitting((engine, n) => engine.submit("free", { n })) },
  traced: { statements: 1, traced: true, submit: submitting((engine, n) => engine.submit("free", { n })) },
  "under a queue cap": {
    statements: 1,
    queueCap: 1_000,
    submit: submitting((engine, n) => engine.submit("free", { n })),
  },
  "with a tag": {
    statements: 1,
    submit: submitting((engine, n) => engine.submit("free", { n }, { tags: ["one"] })),
  },
  unique: {
    statements: 1,
    submit: submitting((engine, n) => engine.submit("free", { n }, { unique })),
  },
  "live without a price": {
    statements: 1,
    submit: submitting((engine, n) => engine.submit("free", { n }, { mode: "live" })),
  },
  "live with a price": { statements: 1, arrange: setPrice, submit: live },
  "live under a spend cap": {
    statements: 1,
    arrange: async (engine) => {
      await setPrice(engine)
      await engine.operator.setSpendCap({ project: "capped" }, { currency: "usd", day: "100" })
    },
    submit: submitting((engine, n) => engine.submit("paid", { n }, { mode: "live", project: "capped" })),
  },
  "with an upload": {
    statements: 1,
    submit: async (engine, n) => {
      const upload = await engine.createUpload({ format: "wav", declaredSeconds: 1 })
      await engine.receiveUpload(upload.id, "audio/wav", new TextEncoder().encode("RIFF0000WAVEfmt "))
      return () => engine.submit("heard", { n, file: upload.id })
    },
  },
}

const inTransaction: Readonly<Record<string, Submission>> = {
  "under a queue cap": {
    statements: 1,
    queueCap: 1_000,
    submit: submitting((engine, n, transaction) => engine.submit("free", { n }, { transaction })),
  },
  sandbox: {
    statements: 1,
    submit: submitting((engine, n, transaction) => engine.submit("free", { n }, { transaction })),
  },
  "with a tag": {
    statements: 1,
    submit: submitting((engine, n, transaction) => engine.submit("free", { n }, { transaction, tags: ["one"] })),
  },
  unique: {
    statements: 1,
    submit: submitting((engine, n, transaction) => engine.submit("free", { n }, { transaction, unique })),
  },
  "live with a price": {
    statements: 1,
    arrange: setPrice,
    submit: submitting((engine, n, transaction) => engine.submit("paid", { n }, { transaction, mode: "live" })),
  },
}

const count = 15

const callsOf = async (engine: Engine, { submit }: Submission, from: number, to: number, client: pg.Client) => {
  const calls: Array<() => Promise<unknown>> = []
  for (let n = from; n < to; n += 1) calls.push(await submit(engine, n, client))
  return calls
}

const withEngine = async (
  { arrange, queueCap = 0, traced = false }: Submission,
  use: (engine: Engine, proxy: TcpProxy, client: pg.Client) => Promise<void>,
): Promise<void> => {
  await using database = await freshDatabase()
  await using proxy = await tcpProxy(database.url)
  const engine = await open(postgresStore({ url: proxy.url, notifications: false }), traced, queueCap)
  try {
    await arrange?.(engine)
    await withClient(proxy.url, (client) => use(engine, proxy, client))
  } finally {
    await engine.stop({ drainMs: 0 })
  }
}

describe("statements of one submission on Postgres, once the process has made others like it", () => {
  it.each(Object.entries(submissions))("%s", async (_name, submission) => {
    await withEngine(submission, async (engine, proxy, client) => {
      for (const call of await callsOf(engine, submission, 0, 3, client)) await call()
      const calls = await callsOf(engine, submission, 3, 3 + count, client)
      await untilQuiet(proxy)
      expect(await statementsOf(proxy, calls)).toHaveLength(submission.statements)
    })
  })

  it.each(Object.entries(inTransaction))("in a caller's transaction: %s", async (_name, submission) => {
    await withEngine(submission, async (engine, proxy, client) => {
      await client.query("BEGIN")
      for (const call of await callsOf(engine, submission, 0, 3, client)) await call()
      await client.query("COMMIT; BEGIN")
      await untilQuiet(proxy)
      expect(await statementsOf(proxy, await callsOf(engine, submission, 3, 3 + count, client))).toHaveLength(
        submission.statements,
      )
      await client.query("COMMIT")
    })
  })
})
