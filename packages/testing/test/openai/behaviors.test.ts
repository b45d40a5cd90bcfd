import {
  answer,
  answerLate,
  answerRaw,
  badRequest,
  contentPolicyViolation,
  empty,
  failWith,
  hang,
  hangAfterHeaders,
  html,
  insufficientQuota,
  invalidKey,
  malformed,
  moderationBlocked,
  type OpenAiBehavior,
  overloaded,
  rateLimited,
  redirectTo,
  reset,
  serverError,
  trickle,
  truncated,
} from "@kiln/testing/openai"
import { describe, expect, it } from "vitest"
import { bytesOf, draw, pngSize, requests, speak, withStandIn } from "./support.ts"

const endpoints = ["transcription", "speech", "chat", "responses", "image", "models"] as const

/** The result of a request: its status and body, or where it failed. */
const fate = async (request: Promise<Response>) => {
  const response = await request.catch(() => "no answer" as const)
  if (response === "no answer") return { response, body: Buffer.alloc(0) }
  return { response: response.status, body: await bytesOf(response).catch(() => "broken body" as const) }
}

describe.each(endpoints)("%s", (endpoint) => {
  const request = requests[endpoint]

  it("answers late, as usual", () =>
    withStandIn(async (standIn) => {
      const usual = await fate(request(standIn))
      standIn.script(endpoint, answerLate(30))
      const late = await fate(request(standIn))
      // Ids count calls; nothing else differs.
      const withoutIds = (body: Buffer | string) => body.toString().replaceAll(/(chatcmpl-|resp_|msg_)\d/g, "id")
      expect(withoutIds(late.body)).toBe(withoutIds(usual.body))
      const [first, second] = standIn.callsOf(endpoint)
      expect([first?.outcome, second?.outcome]).toEqual(["answered", "answered"])
      expect(second!.endedAtMs! - second!.beganAtMs).toBeGreaterThanOrEqual(29)
    }))

  it.each<[string, OpenAiBehavior<never>, number, object]>([
    ["rateLimited", rateLimited(7), 429, { type: "requests", code: "rate_limit_exceeded" }],
    ["insufficientQuota", insufficientQuota, 429, { type: "insufficient_quota", code: "insufficient_quota" }],
    ["invalidKey", invalidKey(), 401, { code: "invalid_api_key" }],
    ["serverError", serverError, 500, { type: "server_error", code: null }],
    ["overloaded", overloaded, 503, { type: "server_error" }],
    ["contentPolicyViolation", contentPolicyViolation, 400, { code: "content_policy_violation" }],
    ["moderationBlocked", moderationBlocked, 400, { code: "moderation_blocked" }],
    ["badRequest", badRequest("prompt"), 400, { type: "invalid_request_error", param: "prompt" }],
    ["failWith", failWith({ status: 418, code: "teapot", headers: { "x-tea": "1" } }), 418, { code: "teapot" }],
  ])("fails with %s", (name, behavior, status, error) =>
    withStandIn(async (standIn) => {
      standIn.script(endpoint, behavior)
      const response = await request(standIn)
      expect(response.status).toBe(status)
      expect(response.headers.get("retry-after")).toBe(name === "rateLimited" ? "7" : null)
      const body = await response.json()
      expect(Object.keys(body.error)).toEqual(["message", "type", "param", "code"])
      expect(body.error).toMatchObject(error)
      expect(standIn.calls()).toMatchObject([{ behavior: "Fail", outcome: "failed", status }])
      expect((await fate(request(standIn))).response).toBe(200)
    }),
  )

  it("hangs before the headers", () =>
    withStandIn(async (standIn) => {
      standIn.script(endpoint, hang)
      const client = new AbortController()
      const running = fate(request(standIn, client.signal))
      await standIn.untilCalled(endpoint)
      expect(standIn.calls()).toMatchObject([{ behavior: "Hang", outcome: "running" }])
      client.abort()
      expect((await running).response).toBe("no answer")
      await standIn.untilEnded(endpoint)
      const [call] = standIn.calls()
      expect(call?.outcome).toBe("client_gone")
      expect(call).not.toHaveProperty("status")
      expect(call!.endedAtMs).toBeGreaterThanOrEqual(call!.beganAtMs)
    }))

  it("hangs after the headers", () =>
    withStandIn(async (standIn) => {
      standIn.script(endpoint, hangAfterHeaders)
      const client = new AbortController()
      const response = await request(standIn, client.signal)
      expect(response.status).toBe(200)
      expect(Number(response.headers.get("content-length"))).toBeGreaterThan(0)
      expect(standIn.calls()).toMatchObject([{ behavior: "Hang", outcome: "running" }])
      client.abort()
      await standIn.untilEnded(endpoint)
      expect(standIn.calls()).toMatchObject([{ outcome: "client_gone", status: 200 }])
    }))

  it("resets the connection, before the answer and in the middle", () =>
    withStandIn(async (standIn) => {
      standIn.script(endpoint, reset("before"), reset("middle"))
      expect(await fate(request(standIn))).toEqual({ response: "no answer", body: Buffer.alloc(0) })
      const middle = await fate(request(standIn))
      // The reset may overtake the headers.
      expect([
        [200, "broken body"],
        ["no answer", Buffer.alloc(0)],
      ]).toContainEqual([middle.response, middle.body])
      await standIn.untilEnded(endpoint, 2)
      expect(standIn.calls().map(({ outcome }) => outcome)).toEqual(["failed", "failed"])
    }))

  it("breaks off in the middle of the body, and truncates its content", () =>
    withStandIn(async (standIn) => {
      const whole = await fate(request(standIn))
      standIn.script(endpoint, truncated("body"), truncated("file"))
      expect(await fate(request(standIn))).toEqual({ response: 200, body: "broken body" })
      const cut = await fate(request(standIn))
      expect(cut.response).toBe(200)
      expect(cut.body.length).toBeLessThan(whole.body.length)
      expect(standIn.calls().map(({ outcome }) => outcome)).toEqual(["answered", "failed", "answered"])
    }))

  it("is malformed", () =>
    withStandIn(async (standIn) => {
      standIn.script(endpoint, malformed("notJson"), malformed("otherShape"), malformed("wrongBase64"))
      const [notJson, otherShape, wrongBase64] = [
        await fate(request(standIn)),
        await fate(request(standIn)),
        await fate(request(standIn)),
      ]
      expect([notJson.response, otherShape.response, wrongBase64.response]).toEqual([200, 200, 200])
      expect(() => JSON.parse(notJson.body.toString())).toThrow("JSON")
      expect(JSON.parse(otherShape.body.toString())).toHaveProperty("object", "something.else")
      expect(JSON.parse(wrongBase64.body.toString())).toHaveProperty(endpoint === "image" ? "data" : "object")
    }))

  it("is HTML, empty, a redirect, or any response", () =>
    withStandIn(async (standIn) => {
      standIn.script(endpoint, html, empty, answerRaw({ status: 201, headers: { "x-a": "b" }, body: "c" }))
      const page = await request(standIn)
      expect([page.status, page.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"])
      expect(await page.text()).toMatch(/^<!doctype html>/)
      expect(await fate(request(standIn))).toEqual({ response: 200, body: Buffer.alloc(0) })
      const raw = await request(standIn)
      expect([raw.status, raw.headers.get("x-a"), await raw.text()]).toEqual([201, "b", "c"])
    }))
})

describe("single behaviors", () => {
  it("trickles byte by byte, and stops when the client disconnects", () =>
    withStandIn(async (standIn) => {
      standIn.script("chat", trickle(1, 7))
      expect((await (await requests.chat(standIn)).json()).choices[0].message.content).toBe("You said: hello")
      standIn.script("speech", trickle(1))
      const client = new AbortController()
      const response = await speak(standIn, "hello", {}, client.signal)
      const reader = response.body!.getReader()
      expect((await reader.read()).value?.length).toBeLessThan(100)
      client.abort()
      await expect(reader.read()).rejects.toThrow("aborted")
      await standIn.untilEnded("speech")
      expect(standIn.callsOf("speech")).toMatchObject([{ outcome: "client_gone", status: 200 }])
    }))

  it("redirects, with the method kept", () =>
    withStandIn(async (standIn) => {
      standIn.script("image", redirectTo("http://127.0.0.1:1/private"))
      const response = await draw(standIn, "x")
      expect([response.status, response.headers.get("location")]).toEqual([307, "http://127.0.0.1:1/private"])
      const { data } = await (await draw(standIn, "x", { model: "dall-e-3" })).json()
      standIn.script("imageFile", redirectTo("http://127.0.0.1:1/", 302), truncated("file"))
      expect((await fetch(data[0].url, { redirect: "manual" })).status).toBe(302)
      const cut = await bytesOf(await fetch(data[0].url))
      expect(() => pngSize(cut)).toThrow("a chunk ends past the file")
    }))

  it("cuts the image inside of whole base64", () =>
    withStandIn(async (standIn) => {
      standIn.script("image", truncated("file"), malformed("wrongBase64"), answer({ data: Uint8Array.of(1, 2) }))
      const base64 = async (): Promise<string> => (await (await draw(standIn, "x")).json()).data[0].b64_json
      const cut = Buffer.from(await base64(), "base64")
      expect(cut.toString("latin1", 1, 4)).toBe("PNG")
      expect(() => pngSize(cut)).toThrow("a chunk ends past the file")
      expect(await base64()).toContain("*")
      expect(await base64()).toBe("AQI=")
    }))

  it("reports an unknown behavior, which a script in JSON may contain", () =>
    withStandIn(
      async (standIn) => {
        const { response, body } = await fate(speak(standIn, "x"))
        expect([response, body.toString()]).toEqual([500, expect.stringContaining("unknown behavior")])
      },
      { usually: JSON.parse('{"speech":{"_tag":"Anwser"}}') },
    ))

  it("follows the script in order, then behaves as usual", () =>
    withStandIn(async (standIn) => {
      standIn.usually("speech", answer({ data: Buffer.from("usual"), mediaType: "audio/x" }))
      standIn.script("speech", answer({ data: Buffer.from("one") }), serverError)
      standIn.script("speech", answer({ data: Buffer.from("three") }))
      const fates = []
      for (let call = 0; call < 5; call++) fates.push(await fate(speak(standIn, "x")))
      expect(fates.map(({ response, body }) => (response === 200 ? body.toString() : response))).toEqual([
        "one",
        500,
        "three",
        "usual",
        "usual",
      ])
    }))
})
