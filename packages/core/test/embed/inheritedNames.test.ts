import { createEngine, jobKind, type Kind, providerPort } from "@kiln/core"
import { memoryBlobs, memoryStore, testEngine } from "@kiln/testing"
import { describe, expect, it } from "vitest"
import { z } from "zod"

/** What every object inherits is a name like any other. */

const names = ["constructor", "toString", "valueOf", "hasOwnProperty", "isPrototypeOf", "__proto__", "__defineGetter__"]
const request = z.object({})

/** A name that a part with this form may have, and a plain one for the others. */
const allowed = (name: string, form: RegExp) => (form.test(name) ? name : "plain")

/** A kind whose name, meter, price, switch, port, error code, file and step all have this name, as far as each may. */
const kindOf = (name: string) => {
  const port = providerPort({
    name: allowed(name, /^[a-z][A-Za-z]*$/),
    check: (answer: unknown, _request: object) => String(answer),
    example: "answer",
  })
  const file = allowed(name, /^[0-9a-z]+$/)
  const kind = jobKind({
    name,
    request,
    price: name,
    meters: [name, "free"],
    maxUsage: () => Object.fromEntries([[name, 3]]),
    switches: [allowed(name, /^[a-z][a-z]*$/)],
    providers: [port],
    files: [file],
    errorCodes: [allowed(name, /^[a-z]+$/)],
    run: async (attempt) => {
      const { ask, children, step, writeFile } = attempt as typeof attempt & {
        readonly ask: Readonly<Record<string, (request: object) => Promise<string>>>
      }
      const kept = await step(name, async () => ({ answer: (await ask[port.name]?.({})) ?? null }))
      const [child] = await children(`${name}-children`, "inner", [Object.fromEntries([[name, 1]])] as never)
      await writeFile(file, async () => ({ data: Uint8Array.of(1, 2), mediaType: "text/plain" }))
      return {
        output: Object.fromEntries([
          [`${name}!`, kept.answer],
          ["child", child?.status ?? null],
        ]) as never,
        usage: Object.fromEntries([[name, 5]]) as never,
      }
    },
  })
  return { kind: kind as object as Kind, port, file }
}

const inner = jobKind({
  name: "inner",
  request: z.record(z.string(), z.number()),
  run: async ({ request: given }) => ({ output: { names: Object.keys(given) } }),
})

describe.each(names)("%s", (name) => {
  it("is a name of kinds, meters, prices, switches, ports, files and steps, from the submission to the charge", async () => {
    const { file, kind, port } = kindOf(name)
    const calls: Array<string> = []
    const serve = async () => {
      calls.push(port.name)
      return "served"
    }
    const providers = Object.fromEntries([[port.name, serve]])
    await using engine = await createEngine({
      store: memoryStore(),
      blobs: memoryBlobs(),
      kinds: [kind, inner] as never,
      providers: { sandbox: providers, live: providers } as never,
      settings: { pollIntervalMs: 20, limits: { perKind: Object.fromEntries([[name, 2]]), perProject: 0 } },
      log: false,
    })
    const { operator } = engine
    const unitAmounts = Object.fromEntries([
      [name, "0.5"],
      ["free", "0"],
    ])
    await operator.setPrice({ name, currency: "usd", unitAmounts, active: true })
    const live = { mode: "live" } as const
    // Its switch is off: what objects inherit is no switch that is on.
    await expect(engine.submit(name as never, {} as never, live)).rejects.toMatchObject({ code: "live_not_active" })
    await operator.setSwitch(allowed(name, /^[a-z][a-z]*$/) as never, true)
    const job = (await engine.submitAndWait(
      name as never,
      {} as never,
      {
        ...live,
        timeoutMs: 60_000,
        metadata: Object.fromEntries([[name, "m"]]),
        tags: [name],
        unique: { by: name, while: "unfinished" },
      } as never,
    )) as { readonly id: string; readonly output: Readonly<Record<string, unknown>> }
    expect(job).toMatchObject({ status: "done", tags: [name] })
    expect(job.output[`${name}!`]).toBe("served")
    expect(job.output["child"]).toBe("done")
    expect(job.output[file]).toMatchObject({ bytes: 2 })
    expect(calls).toEqual([port.name])
    // Charged up to the maximum that the kind states.
    const charge = (
      job as object as { readonly billing: { readonly amount: string; readonly lineItems: ReadonlyArray<object> } }
    ).billing
    expect(charge.amount).toBe("1.5")
    expect(charge.lineItems).toMatchObject([{ meter: name, quantity: 3, unitAmount: "0.5" }])
    const found = await operator.list({ metadata: Object.fromEntries([[name, "m"]]), tags: [name] })
    expect(found.jobs.map(({ id }) => id)).toEqual([job.id])
  })

  it("is not served, priced or switched on because objects inherit it", async () => {
    const { kind, port } = kindOf(name)
    const parts = { store: memoryStore(), blobs: memoryBlobs(), log: false } as const
    await expect(
      createEngine({ ...parts, kinds: [kind, inner] as never, providers: { sandbox: {} } as never }),
    ).rejects.toThrow(`must include the providers of the kind ${name}: ${port.name}`)
    await using kiln = await testEngine({ kinds: [kind, inner] as never, jobMode: "live" })
    expect(await kiln.submit(name as never, {} as never)).toMatchObject({ status: "done" })
  })
})
