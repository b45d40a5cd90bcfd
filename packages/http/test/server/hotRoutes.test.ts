import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { startServer, type TestServer } from "./startServer.ts"

/** Counts instead of times: they are the same on every machine. */

const requests = 20
const cost = { fibers: 0, keys: 0, calls: new Map<string, number>() }
const count = <A>(verb: string, call: A): A => {
  cost.calls.set(verb, (cost.calls.get(verb) ?? 0) + 1)
  return call
}

let server: TestServer
let secret: string
beforeAll(async () => {
  server = await startServer({
    fibers: { recordFiberStart: () => void (cost.fibers += 1), recordFiberEnd: () => undefined },
    wrapKeys: (keys) => ({
      ...keys,
      findKey: (hash) => {
        cost.keys += 1
        return keys.findKey(hash)
      },
    }),
    wrapJobs: (store) => ({
      ...store,
      pollJobs: (items) => count("pollJobs", store.pollJobs(items)),
      findByIdempotencyKey: (...key) => count("findByIdempotencyKey", store.findByIdempotencyKey(...key)),
      createJobs: (jobs) => count("createJobs", store.createJobs(jobs)),
    }),
  })
  secret = (await server.createKey()).secret
})
afterAll(() => server.stop())

let posted = 0
const post = () =>
  fetch(`${server.url}/v1/audio/speech`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${secret}`,
      "content-type": "application/json",
      "idempotency-key": `key-${posted++}`,
    },
    body: JSON.stringify({ input: "hello" }),
  })
const poll = (id: string) => fetch(`${server.url}/v1/jobs/${id}`, { headers: { authorization: `Bearer ${secret}` } })

/** Runs requests one after the other, and counts what each costs. */
const costOf = async (request: () => Promise<Response>, status: number) => {
  await (await request()).text()
  Object.assign(cost, { fibers: 0, keys: 0 })
  cost.calls.clear()
  for (let n = 0; n < requests; n++) {
    const response = await request()
    expect(response.status).toBe(status)
    await response.text()
  }
  const calls = [...cost.calls].map(([verb, times]) => [verb, times / requests] as const)
  return { fibers: cost.fibers / requests, keys: cost.keys, ...Object.fromEntries(calls) }
}

describe("the frequent requests", () => {
  it("poll in one fiber and with one call of the store", async () => {
    const { id } = (await (await post()).json()) as { readonly id: string }
    expect(await costOf(() => poll(id), 200)).toEqual({ fibers: 1, keys: 0, pollJobs: 1 })
  })

  it("create in a fiber of their own and that of the store call", async () => {
    const { fibers, ...calls } = await costOf(post, 202)
    expect(calls).toEqual({ keys: 0, createJobs: 1 })
    // One request in several takes a portion of the rate limit from the store, in a fiber of its own.
    expect(fibers).toBeGreaterThanOrEqual(2)
    expect(fibers).toBeLessThanOrEqual(2.2)
  })
})
