import { expect } from "vitest"
import type { Answer } from "./Answer.ts"
import { type Api, type Call, putCall, targetOf } from "./Api.ts"
import { wav } from "@kiln/service-lab"
import { rows } from "./tables.ts"

/** The two kinds of signed URLs, and the requests for both. */

export interface Capability {
  readonly name: "upload" | "file"
  readonly invalid: string
  readonly expired: string
  /** The target of a fresh URL that works. */
  readonly make: (api: Api) => Promise<string>
  readonly call: (target: string) => Call
  readonly works: (answer: Answer) => boolean
}

const capabilities: ReadonlyArray<Capability> = [
  {
    name: "upload",
    invalid: "upload_url_invalid",
    expired: "upload_expired",
    make: async (api) => targetOf((await api.upload()).upload_url),
    // Refused by its type where the URL is good, so that the URL stays good.
    call: (target) => putCall(target, wav(0.1), { "content-type": "text/plain" }),
    works: (answer) => answer.code === "unsupported_content_type",
  },
  {
    name: "file",
    invalid: "file_url_invalid",
    expired: "file_gone",
    make: async (api) =>
      targetOf((await api.finished((await api.job("/v1/audio/speech", { input: "x" })).path)).output.audio_url),
    call: (target) => ({ path: target, key: null }),
    works: (answer) => answer.status === 200,
  },
]

export const forEachCapability = (
  name: (one: Capability) => string,
  run: (api: Api, one: Capability, target: string) => Promise<void>,
) =>
  rows(capabilities, name, async (api, one) => {
    const target = await one.make(api)
    await run(api, one, target)
    // Whatever was tried, the URL itself still works.
    expect(one.works(await api.quietly(one.call(target)))).toBe(true)
  })

/** Requests that must get 403 for each of these targets, with the same body. */
export const expectInvalid = async (
  api: Api,
  { call, invalid, make }: Capability,
  targets: ReadonlyArray<readonly [name: string, target: string]>,
) => {
  const reference = await api.quietly(call((await make(api)).replace(/.{43}$/, "A".repeat(43))))
  expect(reference.code).toBe(invalid)
  for (let from = 0; from < targets.length; from += 40)
    await Promise.all(
      targets.slice(from, from + 40).map(async ([name, target]) => {
        const answer = await api.quietly(call(target))
        expect(answer.code, `${name}: ${target}`).toBe(invalid)
        expect(answer.comparable, `${name}: ${target}`).toBe(reference.comparable)
      }),
    )
}

export const parts = (target: string) => {
  const [path = "", query = ""] = target.split("?")
  const [e = "", k = "", s = ""] = query.split("&")
  return { path, query, e, k, s }
}
