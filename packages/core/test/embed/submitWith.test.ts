import { jobKind, type LogEntry } from "@kiln/core"
import { JobKind } from "@kiln/core/kinds"
import { testEngine } from "@kiln/testing"
import * as Effect from "effect/Effect"
import { describe, expect, it, vi } from "vitest"
import { z } from "zod"
import { openWith } from "./support.ts"

/** The jobs for which `onFinished` was called. */
const ended: Array<string> = []
const mail = jobKind({
  name: "mail",
  request: z.object({ to: z.string() }),
  output: z.object({ sent: z.string() }),
  price: "mails",
  meters: ["mails"],
  maxUsage: () => ({ mails: 1 }),
  switches: ["mails"],
  run: async ({ request }) => ({ output: { sent: request.to }, usage: { mails: 1 } }),
  onFinished: ({ job }) => void ended.push(job.id),
})
const noMail = { to: z.string(), transcript: z.string() }
const transcript = jobKind({
  name: "transcript",
  request: z.object(noMail),
  upload: "transcript",
  run: async () => ({ output: {} }),
})

type Verbs = { submitWith: (...given: ReadonlyArray<unknown>) => Promise<unknown> }

/** An order that sends a mail with its result, after whatever `work` does. */
const orderThat = (work: (id: string, attempt: number) => unknown) =>
  jobKind({
    name: "order",
    request: z.object({ to: z.string() }),
    output: z.object({ mail: z.string() }),
    price: "orders",
    meters: ["orders"],
    maxUsage: () => ({ orders: 1 }),
    run: async ({ attempt, engine, request }) => {
      const { id } = await engine.submitWith("mail", mail, request, { tags: ["order"], priority: "high" })
      await work(id, attempt)
      return { output: { mail: id }, usage: { orders: 1 } }
    },
  })

describe("submitWith", () => {
  it("submits a job with the result, which names it; attempts that fail submit none", async () => {
    const ids = new Set<string>()
    const order = orderThat((id, attempt) => {
      ids.add(id)
      if (attempt < 3) throw new Error("not yet")
    })
    await using kiln = await testEngine({ kinds: [order, mail], mode: "manual" })
    const job = await kiln.submit("order", { to: "ada" })
    const queued: Array<string> = []
    kiln.on("queued", ({ jobId }) => void queued.push(jobId))
    await kiln.drain({ throughRetries: true })
    const [id = ""] = ids
    expect(ids.size).toBe(1)
    expect(queued).toEqual([id])
    expect(await kiln.get(job)).toMatchObject({ status: "done", attempts: 3, output: { mail: id } })
    expect(await kiln.get(id)).toMatchObject({
      kind: "mail",
      status: "done",
      tags: ["order"],
      priority: "high",
      output: { sent: "ada" },
    })
    expect((await kiln.operator.list({ kind: "mail" })).jobs).toHaveLength(1)
  })

  it("submits none if the job fails or is canceled; a retry submits it, under the id that was told", async () => {
    const ids: Array<string> = []
    let isBroken = true
    const order = orderThat((id) => {
      ids.push(id)
      if (isBroken) throw new Error("no")
    })
    await using kiln = await testEngine({ kinds: [order, mail] })
    const failed = await kiln.submit("order", { to: "ada" })
    expect(failed).toMatchObject({ status: "failed", attempts: 3 })
    await expect(kiln.get(ids[0] ?? "")).rejects.toMatchObject({ code: "job_not_found" })
    isBroken = false
    expect(await kiln.operator.retry(failed)).toMatchObject({ status: "done", output: { mail: ids[0] } })
    await kiln.drain()
    expect(await kiln.get(ids[0] ?? "")).toMatchObject({ status: "done" })
    await using engine = await openWith([orderThat((_) => new Promise(() => undefined)), mail])
    const canceled = await engine.submit("order", { to: "ada" })
    while ((await engine.get(canceled)).status === "queued") await new Promise((resolve) => setTimeout(resolve, 5))
    await engine.operator.cancel(canceled)
    await engine.wait(canceled)
    expect((await engine.operator.list({ kind: "mail" })).jobs).toEqual([])
  })

  it("keeps the result when a price or a cap refuses the job: it exists as failed, and its retry is accepted later", async () => {
    await using engine = await openWith([orderThat(() => undefined), mail])
    const failures: Array<string> = []
    engine.on("failed", ({ errorCode, jobId }) => void failures.push(`${jobId} ${errorCode}`))
    const live = { mode: "live", project: "shop", timeoutMs: 60_000 } as const
    await engine.operator.setPrice({ name: "orders", currency: "usd", unitAmounts: { orders: "2" } })
    const unpriced = await engine.submitAndWait("order", { to: "ada" }, live)
    expect(unpriced).toMatchObject({ status: "done", billing: { status: "charged", amount: "2" } })
    const mailOf = (job: typeof unpriced) => engine.wait((job.status === "done" && job.output?.mail) || "")
    const refused = await mailOf(unpriced)
    expect(refused).toMatchObject({
      status: "failed",
      errorCode: "not_accepted",
      errorMessage: "live jobs of this kind are not active; missing: price:mails",
      attempts: 0,
      billing: { status: "not_charged", amount: "0" },
    })
    await vi.waitFor(() => expect(ended).toContain(refused.id), 10_000)
    expect(failures).toEqual([`${refused.id} not_accepted`])
    await engine.operator.setPrice({ name: "mails", currency: "usd", unitAmounts: { mails: "1" } })
    await engine.operator.setSwitch("mails", true)
    // Both orders cost 2.
    const capDay = (day: string) => engine.operator.setSpendCap({ project: "shop" }, { currency: "usd", day })
    await capDay("4")
    const capped = await mailOf(await engine.submitAndWait("order", { to: "ada" }, live))
    expect(capped).toMatchObject({ status: "failed", errorCode: "not_accepted" })
    expect(capped.status === "failed" && capped.errorMessage).toContain("spend cap")
    await expect(engine.operator.retry(capped)).rejects.toMatchObject({ code: "spend_cap_reached" })
    await capDay("5")
    const again = await engine.wait(await engine.operator.retry(capped), { timeoutMs: 60_000 })
    expect(again).toMatchObject({ status: "done", billing: { amount: "1" } })
  })

  it("leaves switches to the queue: the job waits until they are on", async () => {
    await using engine = await openWith([orderThat(() => undefined), mail])
    await engine.operator.setPrice({ name: "orders", currency: "usd", unitAmounts: { orders: "2" } })
    await engine.operator.setPrice({ name: "mails", currency: "usd", unitAmounts: { mails: "1" } })
    const job = await engine.submitAndWait("order", { to: "ada" }, { mode: "live", timeoutMs: 60_000 })
    const id = (job.status === "done" && job.output?.mail) || ""
    expect((await engine.get(id)).status).toBe("queued")
    await engine.operator.setSwitch("mails", true)
    expect(await engine.wait(id, { timeoutMs: 60_000 })).toMatchObject({ status: "done", billing: { amount: "1" } })
  })

  it("is the same for kinds with Effect, and beside children", async () => {
    const order = JobKind({
      name: "order",
      request: z.object({}),
      run: ({ children, engine }) =>
        Effect.gen(function* () {
          const id = yield* engine.submitWith("later", "mail", { to: "later" })
          const [child] = yield* children("mails", "mail", [{ to: "now" }])
          return { output: { id, child: child?.status ?? null }, files: [], usage: {} }
        }),
    })
    await using engine = await openWith([order as never, mail])
    const job = await engine.submitAndWait("order" as never, {} as never, { timeoutMs: 60_000 })
    expect(job).toMatchObject({ status: "done", output: { child: "done" } })
    const { jobs } = await engine.operator.list({ kind: "mail" })
    expect(jobs.map(({ id }) => id)).toContain((job as { output: { id: string } }).output.id)
    expect(jobs).toHaveLength(2)
  })

  it.each([
    ["submit", "submitWith", "attempt"],
    ["submit", "submitWith", "retry"],
    ["submitWith", "submit", "attempt"],
    ["submitWith", "submit", "retry"],
  ] as const)("submits one job if the code called %s, and calls %s in the next %s", async (before, after, next) => {
    let verb: "submit" | "submitWith" = before
    const order = jobKind({
      name: "order",
      request: z.object({}),
      limits: { maxFailures: next === "retry" ? 1 : 3 },
      run: async ({ engine }) => {
        const { id } = await engine[verb]("mail", mail, { to: "ada" })
        if (verb === before) throw new Error("not yet")
        return { output: { id } }
      },
    })
    const problems: Array<string> = []
    const log = ({ level, message }: LogEntry) => void (level === "error" && problems.push(message))
    await using kiln = await testEngine({ kinds: [order, mail], mode: "manual", log })
    const first = await kiln.submit("order", {})
    await kiln.drain()
    verb = after
    const job = next === "retry" ? await kiln.operator.retry(first) : first
    await kiln.drain({ throughRetries: true })
    const { jobs } = await kiln.operator.list({ kind: "mail" })
    expect(jobs).toMatchObject([{ status: "done" }])
    expect(await kiln.get(job)).toMatchObject({ status: "done", output: { id: jobs[0]?.id } })
    expect(problems).toEqual([])
  })

  it.each<[string, (engine: Verbs) => Promise<unknown>, string]>([
    [
      "a request that the kind refuses",
      (engine) => engine.submitWith("a", "mail", { to: 1 }),
      'the job of engine.submitWith("a") was refused: InvalidRequest: to (type)',
    ],
    [
      "an unknown kind",
      (engine) => engine.submitWith("a", "mial", {}),
      'unknown job kind "mial"; did you mean "mail"?',
    ],
    [
      "an unknown option",
      (engine) => engine.submitWith("a", "mail", { to: "x" }, { delay: 1 }),
      'unknown option "delay" in engine.submitWith(); did you mean "delayMs"?',
    ],
    [
      "an upload",
      (engine) => engine.submitWith("a", "transcript", { to: "x", transcript: "upl_00000000000000000000000000" }),
      'engine.submitWith("a"): a job with an upload cannot be submitted this way; use engine.submit',
    ],
    [
      "too many jobs",
      async (engine) => {
        for (let n = 0; n <= 100; n++) await engine.submitWith(`mail-${n}`, "mail", { to: "x" })
      },
      'engine.submitWith("mail-100"): a job submits at most 100 jobs this way',
    ],
    [
      "a call that is not awaited",
      async (engine) => void engine.submitWith("a", "mail", { to: "x" }),
      'run returned before engine.submitWith("a") had finished: await it',
    ],
  ])("fails its job at once for %s, and submits nothing", async (_, call, message) => {
    const told: Array<string> = []
    const bad = jobKind({
      name: "bad",
      request: z.object({}),
      run: async ({ engine }) => {
        await call(engine as never)
        return { output: {} }
      },
    })
    await using kiln = await testEngine({ kinds: [bad, mail, transcript] })
    kiln.on("failed", ({ error }) => void told.push((error as Error).message))
    expect(await kiln.submit("bad", {})).toMatchObject({ status: "failed", errorCode: "internal_error", attempts: 1 })
    expect(told[0]).toContain(message)
    expect((await kiln.operator.list({ kind: "mail" })).jobs).toEqual([])
  })
})
