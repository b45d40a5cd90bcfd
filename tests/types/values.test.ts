import { beforeAll, describe, expect, it } from "vitest"
import { type Complaint, compilePrograms } from "./compilePrograms.ts"

const parts = `
import { type Attempt, createEngine, jobKind, type Json, type Storable } from "@kiln/core"
import { memoryStore } from "@kiln/testing"
import { Schema } from "effect"
import { z } from "zod"

interface Customer { id: string; name: string; vip?: boolean; note: string | undefined; parent?: Customer; orders: Order[] }
interface Order { total: number; customer?: Customer; items: ReadonlyArray<{ sku: string }> }
declare const load: (id: string) => Promise<Customer>
class Point { x = 1; norm() { return this.x } }
const request = z.object({ id: z.string() })
const store = memoryStore()
`
const program = (use: string): string => parts + use
const run = (body: string, more = ""): string =>
  program(`jobKind({ name: "k", request, ${more} run: async ({ step, engine }) => { ${body} } })`)

const right = {
  interfaces: program(`
const invoice = jobKind({ name: "invoice", request, run: async ({ step, request }) => {
  const customer = await step("load", () => load(request.id))
  const order: Order = { total: customer.name.length, customer, items: [] }
  return { output: order }
} })
const engine = await createEngine({ store, kinds: [invoice] })
const job = await engine.submitAndWait("invoice", { id: "1" })
if (job.status === "done") console.log(job.output?.total.toFixed(), job.output?.customer?.parent?.name.trim())`),
  nothing: run(
    `await step("mail", async () => {}); if (await step("maybe", async (): Promise<string | undefined> => undefined)) return`,
  ),
  severalOutputs: run(
    `return Math.random() > 1 ? { output: { ok: true, id: 1 } } : { output: { ok: false }, warningCode: "data_expired" }`,
  ),
  optionalFields: run(
    `return { output: { total: 1, note: Math.random() > 1 ? "a" : undefined } }`,
    `output: z.object({ total: z.number(), note: z.string().optional() }),`,
  ),
  optionalFieldsOfEffect: program(`jobKind({
  name: "k",
  request: Schema.Struct({ note: Schema.optional(Schema.String), born: Schema.DateFromString }),
  output: Schema.Struct({ year: Schema.Number, note: Schema.optional(Schema.String) }),
  run: async ({ request }) => ({ output: { year: request.born.getFullYear(), note: request.note } }),
})`),
  decodedDates: program(`
jobKind({ name: "a", request: z.object({ at: z.iso.datetime().transform((t) => new Date(t)) }), run: async ({ request }) => ({ output: { year: request.at.getFullYear() } }) })
jobKind({ name: "b", request: z.object({ at: z.coerce.date() }), run: async ({ request }) => ({ output: { year: request.at.getFullYear() } }) })`),
  unknownAndAny: run(
    `await step("a", async (): Promise<unknown> => 1); return { output: await step("b", async (): Promise<any> => 1) }`,
  ),
  wrappers: program(`
const timed = <T>(step: Attempt["step"], name: string, work: () => Promise<Storable<T>>): Promise<T> => step<T>(name, work)
jobKind({ name: "k", request, run: async ({ step }) => { (await timed(step, "load", () => load("a"))).name.trim() } })`),
  idsFromJson: program(`
const engine = await createEngine({ store, kinds: [jobKind({ name: "k", request, run: async () => ({ output: { n: 1 } }) })] })
const row = JSON.parse("{}") as { id: string; kind: string; file: { id: string } }
await engine.get(row)
await engine.wait({ id: row.id })
await engine.readFile(row.file)
await engine.readFile(row.file.id)
await engine.operator.cancel(row)
const job = await engine.get({ id: row.id, kind: "k" })
if (job.kindVersion === 1 && job.status === "done") console.log(job.output?.n.toFixed())`),
  metadata: program(`
const engine = await createEngine({ store, kinds: [jobKind({ name: "k", request, run: async () => {} })] })
interface Meta { orderId: string; note?: string }
const meta: Meta = { orderId: "o" }
await engine.submit("k", { id: "a" }, { metadata: { ...meta, other: meta.note } })`),
}

const isNot = (place: string, type: string): string => `"${place}: ${type} is not JSON; `

/** Each with what the first two lines of the message must contain. */
const wrong = {
  dateInRequest: [
    program(`jobKind({ name: "k", request: z.object({ user: z.object({ born: z.date() }) }), run: async () => {} })`),
    isNot("request.user.born", "Date"),
  ],
  dateInRequestOfEffect: [
    program(`jobKind({ name: "k", request: Schema.Struct({ born: Schema.Date }), run: async () => {} })`),
    isNot("request.born", "Date"),
  ],
  bigintInRequest: [
    program(`jobKind({ name: "k", request: z.object({ n: z.bigint() }), run: async () => {} })`),
    isNot("request.n", "bigint"),
  ],
  mapInRequest: [
    program(`jobKind({ name: "k", request: z.object({ m: z.map(z.string(), z.number()) }), run: async () => {} })`),
    isNot("request.m", "Map"),
  ],
  dateInOutput: [run(`return { output: { at: new Date() } }`), isNot("output.at", "Date")],
  dateInDeclaredOutput: [
    run(`return { output: { at: new Date() } }`, `output: z.object({ at: z.date() }),`),
    isNot("output.at", "Date"),
  ],
  dateInStep: [run(`await step("a", async () => ({ user: { born: new Date() } }))`), isNot("value.user.born", "Date")],
  listOfSetsInStep: [run(`await step("a", async () => [{ s: new Set([1]) }])`), isNot("value[].s", "Set")],
  instanceInStep: [run(`await step("a", async () => new Point())`), isNot("value.norm", "function")],
  promiseInStep: [run(`await step("a", async () => ({ customer: load("a") }))`), isNot("value.customer", "Promise")],
  holeInStep: [run(`await step("a", async () => [1, undefined])`), `"value[]: undefined is not JSON in a list`],
  jobInStep: [run(`await step("a", async () => engine.get("job_1"))`), isNot("value.createdAt", "Date")],
  dateInSignal: [
    program(
      `await (await createEngine({ store, kinds: [jobKind({ name: "k", request, run: async () => {} })] })).signal("job_1", "s", { at: new Date() })`,
    ),
    isNot("value.at", "Date"),
  ],
  dateInMetadata: [
    program(
      `await (await createEngine({ store, kinds: [jobKind({ name: "k", request, run: async () => {} })] })).submit("k", { id: "a" }, { metadata: { at: new Date() } })`,
    ),
    "'Date' is not assignable to type 'MetadataValue",
  ],
  noOutput: [run(``, `output: z.object({ n: z.number() }),`), "AttemptOutcome<NoInfer<{ n: number; }>, never>"],
  outputItself: [run(`return { n: 1 }`), "AttemptOutcome<object, never>"],
  otherOutputInSandbox: [
    program(
      `jobKind({ name: "k", request, run: async () => ({ output: { a: 1, b: "" } }), sandbox: async () => ({ output: { a: 1 } }) })`,
    ),
    "AttemptOutcome<NoInfer<{ a: number; b: string; }>, never>",
  ],
} as const

describe("values, to the compiler", () => {
  let complaints: Readonly<Record<string, ReadonlyArray<Complaint>>>
  beforeAll(() => {
    const programs = Object.entries(wrong).map(([name, [code]]) => [name, code])
    complaints = compilePrograms({ ...right, ...Object.fromEntries(programs) })
  })

  it.each(Object.keys(right))("compiles: %s", (name) => expect(complaints[name]).toEqual([]))

  it.each(Object.entries(wrong))("does not compile, and its first lines say why: %s", (name, [code, named]) => {
    const [first, ...others] = complaints[name] ?? []
    expect(others).toEqual([])
    expect(first?.line).toBe(code.split("\n").length)
    expect(first?.whole.split("\n").slice(0, 2).join("\n")).toContain(named)
  })
})
