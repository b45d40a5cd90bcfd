import { beforeAll, describe, expect, it } from "vitest"
import { type Complaint, compilePrograms } from "./compilePrograms.ts"

const withEngine = (use: string): string => `
import { builtInKinds, createEngine } from "@kiln/core"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { memoryBlobs, memoryStore } from "@kiln/testing"

const providers = { sandbox: sandboxProviders() }
await using engine = await createEngine({ store: memoryStore(), blobs: memoryBlobs(), kinds: builtInKinds(), providers })
${use}`

const withStores = (use: string): string => `
import { postgresStore } from "@kiln/adapter-postgres"
import { type BetterSqliteDatabase, sqliteStore } from "@kiln/adapter-sqlite"
import { createEngine, type EmbeddedEngine, jobKind, type StoreAdapter } from "@kiln/core"
import type { Transaction } from "kysely"
import { z } from "zod"

const mail = jobKind({ name: "mail", request: z.object({ to: z.string() }), run: async () => ({ output: { id: 1 } }) })
const report = jobKind({ name: "report", request: z.object({}), run: async () => ({ output: { pages: 2 } }) })
const oneOf = process.argv.length > 2 ? postgresStore({ url: "postgres://" }) : sqliteStore({ path: "jobs.db" })
${use}`

const right = {
  storeOfTheEnvironment: withStores(`
const engine = await createEngine({ store: oneOf, kinds: [mail] })
await engine.submit("mail", { to: "ada" })
const any: EmbeddedEngine<typeof mail> = engine
const worker: StoreAdapter = oneOf
console.log(any, await createEngine({ store: worker, kinds: [mail] }))`),
  transactionOfEachStore: withStores(`
declare const transaction: Transaction<{}>
declare const database: BetterSqliteDatabase
const either = await createEngine({ store: oneOf, kinds: [mail] })
await either.submit("mail", { to: "ada" }, { transaction })
const sqlite = await createEngine({ store: sqliteStore({ path: "jobs.db" }), kinds: [mail] })
sqlite.submitSync("mail", { to: "ada" }, { transaction: database })`),
  finishedOfEachKind: withStores(`
await createEngine({
  store: oneOf,
  kinds: [mail, report],
  onFinished: ({ job }) => {
    if (job.kind === "mail" && job.status === "done") console.log(job.output?.id satisfies number | undefined)
    if (job.status === "failed") console.log(job.errorCode, job.finishedAt.getTime())
  },
})`),
  submit: withEngine(`await engine.submit("speech_synthesis", { input: "hello", voice: "nova" })`),
  priorities: withEngine(`
const job = await engine.submit("speech_synthesis", { input: "hello" }, { priority: 5 })
const again = await engine.submit("speech_synthesis", { input: "hello" }, { priority: job.priority })
console.log(again.priority satisfies "low" | "normal" | "high" | "urgent" | -5 | -4 | -3 | -2 | 3 | 4 | 5)
await engine.submit("speech_synthesis", { input: "hello" }, { priority: "urgent" })`),
  submitMany: withEngine(`
const submissions = [{ request: { input: "hello" }, priority: "high", idempotencyKey: "k" }] as const
for (const { error, job, replayed } of await engine.submitMany("speech_synthesis", submissions)) {
  if (error === undefined) console.log(job.kind satisfies "speech_synthesis", replayed satisfies boolean)
  else console.log(error.code)
}`),
}

/** Each with the names that the first line of the message must contain. */
const wrong = {
  unknownKind: [withEngine(`await engine.submit("speech", { input: "hello" })`), '"speech"'],
  wrongField: [
    withEngine(`await engine.submit("speech_synthesis", { input: 1 })`),
    "'number' is not assignable to type 'string'",
  ],
  missingField: [withEngine(`await engine.submit("transcription", {})`), "uploadId"],
  wrongFieldInAList: [
    withEngine(`await engine.submitMany("speech_synthesis", [{ request: { input: 1 } }])`),
    "'number' is not assignable to type 'string'",
  ],
  unknownOptionInAList: [
    withEngine(`await engine.submitMany("speech_synthesis", [{ request: { input: "a" }, priorty: "high" }])`),
    "'priorty'",
  ],
  unknownPriority: [
    withEngine(`await engine.submit("speech_synthesis", { input: "a" }, { priority: "hihg" })`),
    '"hihg"',
  ],
  uncheckedOutcome: [
    withEngine(`console.log((await engine.submitMany("speech_synthesis", []))[0]?.job.id)`),
    "possibly 'undefined'",
  ],
  transactionOfOneStore: [
    withStores(`
declare const database: BetterSqliteDatabase
const engine = await createEngine({ store: oneOf, kinds: [mail] })
await engine.submit("mail", { to: "ada" }, { transaction: database })`),
    "'BetterSqliteDatabase' is not assignable",
  ],
  outputOfAnotherKind: [
    withStores(`
await createEngine({ store: oneOf, kinds: [mail, report], onFinished: ({ job }) => {
  if (job.kind === "mail" && job.status === "done") console.log(job.output?.pages) } })`),
    "'pages'",
  ],
  unknownField: [withEngine(`await engine.submit("image_generation", { prompt: "a kiln", sise: "big" })`), "'sise'"],
} as const

describe("a program", () => {
  let complaints: Readonly<Record<string, ReadonlyArray<Complaint>>>
  beforeAll(() => {
    const programs = Object.entries(wrong).map(([name, [code]]) => [name, code])
    complaints = compilePrograms({ ...right, ...Object.fromEntries(programs) })
  })

  it.each(Object.keys(right))("compiles: %s", (name) => expect(complaints[name]).toEqual([]))

  it.each(Object.entries(wrong))("does not compile, and its first line says why: %s", (name, [code, named]) => {
    // At the line that is wrong, and there alone.
    const line = code.split("\n").length
    expect(complaints[name]).toEqual([expect.objectContaining({ line, message: expect.stringContaining(named) })])
  })
})
