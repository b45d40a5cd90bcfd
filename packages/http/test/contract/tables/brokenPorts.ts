import { BlobUnavailable, StoreUnavailable } from "@kiln/core/domain"
import { Effect } from "effect"
import { expect } from "vitest"
import type { Api, Call } from "../support/Api.ts"
import { wav } from "@kiln/service-lab"
import type { Ports, ServiceSettings, StoreName } from "../support/Service.ts"
import { row, rows, tableInTurn } from "../support/tables.ts"
import { expectReplay } from "./idempotency.ts"

/** The responses to a client when a store is unavailable or there is a defect. */

type Trouble = "none" | "stores" | "blobs" | "defect"
const troubles = new Map<StoreName, Trouble>()
const secret = "canary-secret-of-the-defect"

const failing = (trouble: Trouble | undefined) =>
  trouble === "stores"
    ? Effect.fail(new StoreUnavailable({ operation: secret, cause: new Error(secret) }))
    : trouble === "blobs"
      ? Effect.fail(new BlobUnavailable({ operation: secret, cause: new Error(secret) }))
      : Effect.die(new TypeError(secret))

/** A port of which every effect fails while there is trouble of the given sorts. */
const breakable = <P extends object>(port: P, store: StoreName, sorts: ReadonlyArray<Trouble>): P =>
  new Proxy(port, {
    get(target, name, receiver) {
      const member: unknown = Reflect.get(target, name, receiver)
      // Its failure counts for a second, so it would also refuse the jobs of the rows that follow.
      if (name === "checkPresence") return member
      const guard = (effect: Effect.Effect<unknown, unknown>) =>
        Effect.suspend(() => (sorts.includes(troubles.get(store) ?? "none") ? failing(troubles.get(store)) : effect))
      if (Effect.isEffect(member)) return guard(member as Effect.Effect<unknown, unknown>)
      if (typeof member !== "function" || name === "list") return member
      return (...args: ReadonlyArray<unknown>) =>
        guard(Effect.suspend(() => Reflect.apply(member, target, args) as Effect.Effect<unknown, unknown>))
    },
  })

export const brokenPortSettings: ServiceSettings = {
  serverErrors: true,
  wrap: ({ blobs, jobs, keys, switchboard, uploads }: Ports, store) => ({
    jobs: breakable(jobs, store, ["stores", "defect"]),
    uploads: breakable(uploads, store, ["stores", "defect"]),
    switchboard: breakable(switchboard, store, ["stores", "defect"]),
    keys: breakable(keys, store, ["stores"]),
    blobs: breakable(blobs, store, ["blobs"]),
  }),
}

const during = async <A>(api: Api, trouble: Trouble, use: () => Promise<A>): Promise<A> => {
  troubles.set(api.service.store, trouble)
  try {
    return await use()
  } finally {
    troubles.set(api.service.store, "none")
  }
}

/** A job that is done, an upload that is open, and their URLs. */
const world = async (api: Api) => {
  const speech = await api.job("/v1/audio/speech", { input: "x" })
  const image = await api.job("/v1/images/generations", { prompt: "x" })
  const { output } = await api.finished(speech.path)
  await api.finished(image.path)
  return {
    speech,
    image,
    url: output.audio_url as string,
    upload: await api.upload(),
    ready: await api.uploaded(wav(1)),
  }
}
type World = Awaited<ReturnType<typeof world>>

const calls: ReadonlyArray<readonly [name: string, call: (world: World) => Call]> = [
  ["POST uploads", () => ({ method: "POST", path: "/v1/audio/uploads", json: { format: "wav", declared_seconds: 1 } })],
  [
    "PUT",
    ({ upload }) => ({
      method: "PUT",
      path: upload.upload_url,
      key: null,
      body: wav(1),
      headers: { "content-type": "audio/wav" },
    }),
  ],
  [
    "POST transcriptions",
    ({ ready }) => ({ method: "POST", path: "/v1/audio/transcriptions", json: { upload_id: ready } }),
  ],
  ["POST speech", () => ({ method: "POST", path: "/v1/audio/speech", json: { input: "x" } })],
  [
    "POST turns",
    ({ ready }) => ({ method: "POST", path: "/v1/voice/turns", json: { upload_id: ready, max_output_tokens: 1 } }),
  ],
  ["POST images", () => ({ method: "POST", path: "/v1/images/generations", json: { prompt: "x" } })],
  ["GET job", ({ speech }) => ({ path: speech.path })],
  ["GET image job", ({ image }) => ({ path: image.path })],
  ["GET file", ({ url }) => ({ path: url, key: null })],
  ["DELETE data", ({ speech }) => ({ method: "DELETE", path: `${speech.path}/data` })],
  ["DELETE image data", ({ image }) => ({ method: "DELETE", path: `${image.path}/data` })],
]

const outOfReach = rows<readonly [Trouble, string]>(
  [
    ["stores", "service_unavailable"],
    ["defect", "internal_error"],
  ],
  ([trouble, code]) => `${trouble}: every endpoint answers ${code}, reveals nothing, and works again afterwards`,
  async (api, [trouble, code]) => {
    const there = await world(api)
    for (const [name, call] of calls) {
      const answer = await during(api, trouble, () => api.send(call(there)))
      expect(answer.code, name).toBe(code)
      // The request id leads to the reason.
      if (trouble === "defect")
        expect(
          api.service.logs.some((line) => line.includes(answer.error.request_id) && line.includes(secret)),
          name,
        ).toBe(true)
      expect(answer.text, name).not.toMatch(/canary|TypeError|StoreUnavailable|\.ts|\bat /)
    }
    for (const [name, call] of calls.filter(([name]) => name !== "POST turns"))
      expect((await api.send(call(there))).status, name).toBeLessThan(300)
  },
)

const noLookUp = row("requests that need no lookup are still answered", async (api) => {
  const key = await api.key()
  await during(api, "stores", async () => {
    for (const [call, code] of [
      [{ path: "/nowhere", key: null }, "not_found"],
      [{ path: "/v1/audio/speech", key: null }, "method_not_allowed"],
      [{ path: "/v1/jobs/x", key: null }, "missing_api_key"],
      [{ path: "/v1/jobs/x", key: { ...key, secret: `${key.secret}x` } }, "invalid_api_key"],
      [
        { method: "PUT", path: "/v1/audio/uploads/upl_00000000000000000000000000/file?e=1&k=k1&s=x", key: null },
        "upload_url_invalid",
      ],
    ] satisfies ReadonlyArray<readonly [Call, string]>)
      expect((await api.send(call)).code).toBe(code)
    expect((await api.get("/healthz", { key: null })).status).toBe(200)
  })
})

const keysOutOfReach = row("a key that cannot be looked up is 503, not 401", async (api) => {
  const key = await api.newKey()
  expect((await during(api, "stores", () => api.get("/v1/jobs/x", { key }))).code).toBe("service_unavailable")
})

const noBinding = rows<Trouble>(
  ["stores", "defect"],
  (trouble) => `${trouble}: a 5xx binds no idempotency key and uses no upload up`,
  async (api, trouble) => {
    const { ready } = await world(api)
    const call = {
      method: "POST",
      path: "/v1/audio/transcriptions",
      json: { upload_id: ready },
      headers: { "idempotency-key": "kept" },
    }
    expect((await during(api, trouble, () => api.send(call))).status).toBeGreaterThanOrEqual(500)
    const first = await api.send(call)
    expect(first.header("idempotency-replayed")).toBeUndefined()
    expectReplay(await api.send(call), first)
  },
)

const blobs = [
  row("a deletion whose bytes cannot be removed gets 503 but is final; repeated, it gets 204", async (api) => {
    const { speech, url } = await world(api)
    expect((await during(api, "blobs", () => api.delete(`${speech.path}/data`))).code).toBe("service_unavailable")
    expect((await api.get(speech.path)).json).toMatchObject({ status: "done", warning_code: "data_deleted" })
    expect((await api.get(url, { key: null })).code).toBe("file_gone")
    expect((await api.delete(`${speech.path}/data`)).status).toBe(204)
  }),
  row("a file that cannot be read is 503", async (api) => {
    const { url } = await world(api)
    expect((await during(api, "blobs", () => api.get(url, { key: null }))).code).toBe("service_unavailable")
    expect((await api.get(url, { key: null })).status).toBe(200)
  }),
  row("a file that cannot be stored is 503, and the URL may be used again", async (api) => {
    const { upload } = await world(api)
    expect((await during(api, "blobs", () => api.put(upload.upload_url, wav(1)))).code).toBe("service_unavailable")
    expect((await api.put(upload.upload_url, wav(1))).status).toBe(204)
  }),
]

export const brokenPorts = tableInTurn("broken ports", outOfReach, noLookUp, keysOutOfReach, noBinding, blobs)
