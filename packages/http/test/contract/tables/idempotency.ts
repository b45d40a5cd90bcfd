import { expect } from "vitest"
import type { Answer } from "../support/Answer.ts"
import type { Api, Call } from "../support/Api.ts"
import { wav } from "@kiln/service-lab"
import { row, rows, table } from "../support/tables.ts"
import { creations } from "./success.ts"

/** One job per API key and idempotency key: forms of the header, replay, reuse, and what binds a key. */

const speech = "/v1/audio/speech"
const named = (idempotencyKey: string | ReadonlyArray<string> | null): Pick<Call, "headers"> => ({
  headers: { "idempotency-key": idempotencyKey },
})
const say = (api: Api, input: string, idempotencyKey: string | ReadonlyArray<string> | null) =>
  api.post(speech, { input }, named(idempotencyKey))

const withoutReplayed = (answer: Answer) => answer.comparable.replace(/\nidempotency-replayed: true(?=\n)/i, "")

/** A replay is the first answer again, byte for byte, and says that it is one. */
export const expectReplay = (answer: Answer, first: Answer) => {
  expect(answer.status, answer.text).toBe(202)
  expect(answer.header("idempotency-replayed")).toBe("true")
  expect(first.header("idempotency-replayed")).toBeUndefined()
  expect(withoutReplayed(answer)).toBe(withoutReplayed(first))
}

const visible = String.fromCharCode(...Array.from({ length: 94 }, (_, n) => 0x21 + n))

const forms = [
  ...rows<readonly [string, string]>(
    [
      ["one character", "a"],
      ["255 characters", "k".repeat(255)],
      ["a UUID", "6ecd8c99-4036-403d-bf84-cf8400f67836"],
      ["every visible character", visible],
      ["a comma", "a,b"],
      ["a quote inside", 'a"b'],
      ["255 characters in quotes", `"${"k".repeat(255)}"`],
    ],
    ([name]) => `a key of ${name} is accepted and replayed`,
    async (api, [, key]) => {
      const first = await say(api, "x", key)
      expect(first.status, first.text).toBe(202)
      expectReplay(await say(api, "x", key), first)
    },
  ),
  row("a pair of outer quotes does not count", async (api) => {
    const first = await say(api, "x", "quoted")
    expectReplay(await say(api, "x", '"quoted"'), first)
    expectReplay(await say(api, "x", "  quoted\t"), first)
  }),
  row("letter case does count", async (api) => {
    const ids = await Promise.all(["case", "Case", "CASE"].map(async (key) => (await say(api, "x", key)).json.id))
    expect(new Set(ids).size).toBe(3)
  }),
  ...rows<readonly [string, string | ReadonlyArray<string>]>(
    [
      ["empty", ""],
      ["empty in quotes", '""'],
      ["256 characters", "k".repeat(256)],
      ["256 characters in quotes", `"${"k".repeat(256)}"`],
      ["thousands of characters", "k".repeat(5_000)],
      ["a space inside", "a b"],
      ["a space in quotes", '" a"'],
      ["a tab inside", "a\tb"],
      ["latin1", "caf\xe9"],
      ["UTF-8", "caf\xc3\xa9"],
      ["two headers", ["a", "b"]],
      ["the same header twice", ["a", "a"]],
      ["a second header that is empty", ["a", ""]],
    ],
    ([name]) => `a key of ${name} is idempotency_key_invalid`,
    async (api, [, key]) => {
      const answer = await say(api, "x", key)
      expect(answer.code).toBe("idempotency_key_invalid")
    },
  ),
  ...rows(
    creations,
    ({ type }) => `${type} jobs need a key`,
    async (api, { body, path }) => {
      expect((await api.post(path, await body(api), named(null))).code).toBe("idempotency_key_missing")
    },
  ),
  ...rows<string | null>(
    [null, "a b"],
    (key) => `uploads need none and do not look at ${JSON.stringify(key)}`,
    async (api, key) => {
      expect((await api.post("/v1/audio/uploads", { format: "wav", declared_seconds: 1 }, named(key))).status).toBe(201)
    },
  ),
]

const replays = rows(
  creations,
  ({ type }) => `${type}: the same answer again while it runs, when it is done, and when its data is gone`,
  async (api, { body, path }) => {
    const json = await body(api)
    const first = await api.job(path, json, named("again"))
    expectReplay(await api.post(path, json, named("again")), first.answer)
    await api.finished(first.path)
    expectReplay(await api.post(path, json, named("again")), first.answer)
    expect((await api.delete(`${first.path}/data`)).status).toBe(204)
    expectReplay(await api.post(path, json, named("again")), first.answer)
    expect((await api.finished(first.path)).id).toBe(first.id)
  },
)

const failed = row("a job that failed is replayed as well, and not tried again", async (api) => {
  const first = await api.job(speech, { input: "sandbox:fail:content_rejected" }, named("failing"))
  expect((await api.finished(first.path)).status).toBe("failed")
  expectReplay(await say(api, "sandbox:fail:content_rejected", "failing"), first.answer)
  expect((await api.finished(first.path)).status).toBe("failed")
})

/** Bodies that are one request, and bodies that are two. */
const turn = (id: string, rest: string) => `{"upload_id":${JSON.stringify(id)},${rest}}`

const spellings = row("key order, white space, escapes and 1.0 for 1 are the same request", async (api) => {
  const id = await api.uploaded(wav(1))
  const send = (body: string) => api.send({ method: "POST", path: "/v1/voice/turns", body, ...named("spelled") })
  const first = await send(turn(id, '"max_output_tokens":100,"voice":"nova","instructions":"é"'))
  expect(first.status, first.text).toBe(202)
  for (const body of [
    `{"instructions":"é","voice":"nova","max_output_tokens":100,"upload_id":"${id}"}`,
    turn(id, '\n "max_output_tokens" : 1e2 ,\t"voice":"nova","instructions":"\\u00e9"'),
    turn(id, '"max_output_tokens":100.0,"v\\u006fice":"nova","instructions":"é"'),
    `\ufeff${turn(id, '"max_output_tokens":1000e-1,"voice":"nova","instructions":"é"')} `,
  ])
    expectReplay(await send(body), first)
})

const contentType = row("headers other than the key are no part of the request", async (api) => {
  const first = await say(api, "x", "headers")
  const headers = {
    "idempotency-key": "headers",
    "content-type": "application/json; charset=utf-8",
    "user-agent": "other",
    "x-request-id": "y",
  }
  expectReplay(await api.post(speech, { input: "x" }, { headers }), first)
})

const differences = rows<readonly [string, object, object]>(
  [
    ["another text", { input: "a" }, { input: "b" }],
    ["another letter case", { input: "a" }, { input: "A" }],
    ["a space more", { input: "a" }, { input: "a " }],
    ["another Unicode form", { input: "é" }, { input: "e\u0301" }],
    ["a voice more", { input: "a" }, { input: "a", voice: "nova" }],
    ["a voice less", { input: "a", voice: "nova" }, { input: "a" }],
    ["the default voice, spelled out", { input: "a" }, { input: "a", voice: "alloy" }],
    ["another voice", { input: "a", voice: "nova" }, { input: "a", voice: "echo" }],
  ],
  ([name]) => `${name} is another request: 422, and the first stays`,
  async (api, [, one, other]) => {
    const first = await api.post(speech, one, named("reused"))
    const second = await api.post(speech, other, named("reused"))
    expect(second.code).toBe("idempotency_key_reused")
    // The job that has the key, for a caller that lost the response.
    expect(second.header("location")).toBe(first.header("location"))
    expectReplay(await api.post(speech, one, named("reused")), first)
  },
)

const otherDefaults = row(
  "an optional field that is sent is another request than one that is not, for every kind",
  async (api) => {
    const upload_id = await api.uploaded(wav(1))
    const turn = { upload_id, max_output_tokens: 5 }
    for (const [path, body, more] of [
      ["/v1/images/generations", { prompt: "x" }, { model: "svc-image" }],
      ["/v1/voice/turns", turn, { voice: "alloy" }],
      ["/v1/voice/turns", turn, { instructions: "x" }],
    ] as const) {
      const first = await api.post(path, body, named(path))
      expect((await api.post(path, { ...body, ...more }, named(path))).code).toBe("idempotency_key_reused")
      expect((await api.post(path, body, named(path))).json).toEqual(first.json)
    }
  },
)

const otherPath = row("the same body on another path is another request", async (api) => {
  const said = await say(api, "x", "path")
  expect(said.status).toBe(202)
  const answer = await api.post("/v1/images/generations", { prompt: "x" }, named("path"))
  expect(answer.code).toBe("idempotency_key_reused")
  expect(answer.header("location")).toBe(said.header("location"))
  const id = await api.uploaded(wav(1))
  expect((await api.post("/v1/audio/transcriptions", { upload_id: id }, named("path"))).code).toBe(
    "idempotency_key_reused",
  )
  // A refused request has not used the upload up.
  expect((await api.post("/v1/audio/transcriptions", { upload_id: id }, named("fresh"))).status).toBe(202)
})

const usedUpload = row("422 comes before the upload, a replay although it is used up", async (api) => {
  const upload_id = await api.uploaded(wav(1))
  const first = await api.post("/v1/audio/transcriptions", { upload_id }, named("one"))
  expect((await api.post("/v1/audio/transcriptions", { upload_id }, named("two"))).code).toBe("upload_already_used")
  expect(
    (await api.post("/v1/audio/transcriptions", { upload_id: "upl_00000000000000000000000000" }, named("one"))).code,
  ).toBe("idempotency_key_reused")
  expectReplay(await api.post("/v1/audio/transcriptions", { upload_id }, named("one")), first)
})

const binding = [
  row("a refused request leaves its key free: bad fields, bad JSON, a file that is missing", async (api) => {
    const upload = await api.upload()
    const send = (body: string) =>
      api.send({ method: "POST", path: "/v1/audio/transcriptions", body, ...named("free") })
    expect((await send("{")).code).toBe("invalid_json")
    expect((await send("{}")).code).toBe("invalid_request")
    expect((await send('{"upload_id":"upl_x"}')).code).toBe("upload_not_found")
    const body = JSON.stringify({ upload_id: upload.id })
    expect((await send(body)).code).toBe("upload_not_ready")
    expect((await api.put(upload.upload_url, wav(1))).status).toBe(204)
    const first = await send(body)
    expect({ status: first.status, replayed: first.header("idempotency-replayed") }).toEqual({
      status: 202,
      replayed: undefined,
    })
    expectReplay(await send(body), first)
  }),
  row("a key is the API key's own: others of the project, the mode, the world use the same", async (api) => {
    const key = await api.key()
    const others = [
      await api.newKey({ besides: key }),
      await api.newKey({ besides: key, scopes: ["audio.create"] }),
      await api.newKey(),
    ]
    const jobs = [await api.job(speech, { input: "x" }, named("shared"))]
    for (const other of others)
      jobs.push(await api.job(speech, { input: "something else" }, { key: other, ...named("shared") }))
    expect(jobs.map(({ answer }) => answer.header("idempotency-replayed"))).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
    ])
    expect(new Set(jobs.map(({ id }) => id)).size).toBe(4)
  }),
]

export const idempotency = table(
  "idempotency",
  forms,
  replays,
  failed,
  spellings,
  contentType,
  differences,
  otherDefaults,
  otherPath,
  usedUpload,
  binding,
)
