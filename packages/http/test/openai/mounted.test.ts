import { nodeHandler } from "@kiln/http/mount"
import { expect, it } from "vitest"
import { openEngine } from "../mount/support/MountedEngine.ts"
import { listen, publicUrl } from "../mount/support/servers.ts"
import { callerOf } from "./support.ts"

it("a mounted service serves OpenAI's clients below its prefix with openai: true, and not without", async () => {
  await using mounted = await openEngine()
  const key = await mounted.createKey({ scopes: ["audio.create", "images.create"] })
  await using server = await listen(await nodeHandler(mounted.engine, { publicUrl, openai: true }))
  await using plain = await listen(await nodeHandler(mounted.engine, { publicUrl }))
  const prefix = new URL(publicUrl).pathname.replace(/\/$/, "")
  const at = (port: number) => callerOf({ url: `http://127.0.0.1:${port}${prefix}` }, key)
  const spoken = await at(server.port)("audio/speech", { model: "tts-1", voice: "nova", input: "Hello" })
  expect([spoken.status, spoken.headers.get("content-type")]).toEqual([200, "audio/mpeg"])
  expect((await at(server.port)("models")).json.object).toBe("list")
  expect((await at(plain.port)("models")).status).toBe(404)
  const wrong = nodeHandler(mounted.engine, { publicUrl, openai: "yes" as never })
  await expect(wrong).rejects.toThrow("openai")
})
