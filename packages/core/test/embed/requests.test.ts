import { createEngine, type Finished, jobKind } from "@kiln/core"
import { embeddedContext } from "@kiln/core/effect"
import { AuditLog } from "@kiln/core/ports"
import { memoryBlobs, testEngine } from "@kiln/testing"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { everyStore } from "../support/everyStore.ts"

const letter = jobKind({
  name: "letter",
  request: z.object({ to: z.string() }),
  run: async () => ({ output: {} }),
})

/** The looks that the audit log of an engine's store has, oldest first; `undefined` for a store without one. */
const looksOf = async (engine: object) => {
  const log = Context.getOption(embeddedContext(engine) as Context.Context<never>, AuditLog as never)
  if (log._tag === "None") return undefined
  const { list } = log.value as AuditLog["Service"]
  const entries = await Effect.runPromise(list({ from: 0, to: 4e12, after: null, limit: 10 }))
  return entries.toReversed().map(({ action, actor, subject }) => ({ action, actor, subject }))
}

describe.each(everyStore)("operator.getRequest on %s", (name, open) => {
  it("returns the request, and records each look", async () => {
    await using opened = await open()
    await using engine = await createEngine({
      store: opened.store,
      blobs: memoryBlobs(),
      kinds: [letter],
      autoStart: false,
      log: false,
    })
    const job = await engine.submit("letter", { to: "ada" })
    expect(await engine.operator.getRequest(job)).toEqual({ to: "ada" })
    expect(await engine.operator.getRequest(job.id, { by: "alice" })).toEqual({ to: "ada" })
    await engine.operator.cancel(job)
    await engine.eraseData(job)
    expect(await engine.operator.getRequest(job)).toBeNull()
    await expect(engine.operator.getRequest("job_none")).rejects.toMatchObject({ code: "job_not_found" })
    await expect(engine.operator.getRequest(job, { by: "" })).rejects.toThrow("by must be 1 to 100 visible")
    const look = (actor: string) => ({ action: "job.read-request", actor, subject: job.id })
    expect(await looksOf(engine)).toEqual(
      name === "memory" ? undefined : [look("program"), look("alice"), look("program")],
    )
  })

  it("refuses where the settings keep requests from operators, and records no look", async () => {
    await using opened = await open()
    await using engine = await createEngine({
      store: opened.store,
      blobs: memoryBlobs(),
      kinds: [letter],
      autoStart: false,
      log: false,
      settings: { operatorSeesRequests: false },
    })
    const job = await engine.submit("letter", { to: "ada" })
    await expect(engine.operator.getRequest(job)).rejects.toMatchObject({
      code: "requests_hidden",
      message: expect.stringContaining("settings.operatorSeesRequests"),
    })
    expect((await looksOf(engine)) ?? []).toEqual([])
  })
})

describe("onFinished of a kind with requestOnFailure", () => {
  it("gets the requests of failed jobs, and no others", async () => {
    const calls: Array<Finished> = []
    const kindOf = <const Name extends string>(name: Name, requestOnFailure?: boolean) =>
      jobKind({
        name,
        request: z.object({ to: z.string(), broken: z.boolean().optional() }),
        ...(requestOnFailure !== undefined && { requestOnFailure }),
        run: async ({ failure, request }) => {
          if (request.broken === true) throw failure("internal_error")
          return { output: {} }
        },
        onFinished: (finished) => void calls.push(finished),
      })
    await using kiln = await testEngine({ kinds: [kindOf("open", true), kindOf("closed")] })
    for (const name of ["open", "closed"] as const)
      for (const broken of [true, false]) await kiln.submit(name, { to: "ada", broken })
    expect(calls.map(({ job, request }) => [job.kind, job.status, request])).toEqual([
      ["open", "failed", { to: "ada", broken: true }],
      ["open", "done", undefined],
      ["closed", "failed", undefined],
      ["closed", "done", undefined],
    ])
  })

  it("must be a boolean", () => {
    const options = { name: "a", request: z.object({}), requestOnFailure: "yes", run: async () => ({ output: {} }) }
    expect(() => jobKind(options as never)).toThrow(/requestOnFailure must be true or false/)
  })
})
