import { Effect } from "effect"
import { StoreUnavailable } from "@kiln/core/domain"
import { KeyDirectory } from "@kiln/core/ports"
import { describe, expect, it } from "vitest"
import { startServer } from "./startServer.ts"

describe("an internal failure", () => {
  it("is a 503 or a 500 with a request id; the log has its cause, and neither contains a secret", async () => {
    let behavior: "works" | "is out of reach" | "is broken" = "works"
    await using server = await startServer({
      wrapKeys: (keys) =>
        KeyDirectory.of({
          ...keys,
          findKey: (hash) => {
            if (behavior === "is broken") return Effect.die(new Error("canary-defect"))
            if (behavior === "is out of reach")
              return Effect.fail(new StoreUnavailable({ operation: "findKey", cause: new Error("canary-cause") }))
            return keys.findKey(hash)
          },
        }),
    })
    const keys = [await server.createKey(), await server.createKey()]
    const ask = async (key: string) => {
      const response = await fetch(`${server.url}/v1/audio/speech?secret=canary-query`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${key}`,
          "content-type": "application/json",
          "idempotency-key": "canary-key",
        },
        body: JSON.stringify({ input: "canary-input" }),
      })
      return { response, text: await response.text() }
    }

    behavior = "is out of reach"
    const unavailable = await ask(keys[0]?.secret ?? "")
    expect(unavailable.response.status).toBe(503)
    expect(unavailable.response.headers.get("retry-after")).toBe("5")
    behavior = "is broken"
    const broken = await ask(keys[1]?.secret ?? "")
    expect(broken.response.status).toBe(500)
    expect(JSON.parse(broken.text)).toMatchObject({
      error: { code: "internal_error", type: "api_error", param: null, details: null },
    })

    for (const { response, text } of [unavailable, broken]) {
      expect(text).not.toContain("canary")
      expect(server.logged()).toContain(response.headers.get("x-request-id"))
    }
    expect(server.logged()).toContain("canary-cause")
    expect(server.logged()).toContain("canary-defect")
    for (const secret of [...keys.map((key) => key.secret), "canary-query", "canary-key", "canary-input"])
      expect(server.logged()).not.toContain(secret)
  })

  it("an ordinary refusal is not logged", async () => {
    await using server = await startServer()
    await fetch(`${server.url}/v1/jobs/x`, { headers: { authorization: "Bearer nonsense" } })
    await fetch(`${server.url}/v1/files/fil_x?e=1&k=k&s=canary-signature`)
    expect(server.logged()).toBe("")
  })
})
