import { randomBytes } from "node:crypto"
import { describe, expect, it } from "vitest"
import { run, runJson, serve, temporaryDirectory } from "@kiln/service-lab"

const wav = Buffer.from(`RIFF${"\0".repeat(4)}WAVEfmt ${"\0".repeat(64)}`, "latin1")
const put = async (url: string): Promise<number> =>
  (await fetch(url, { method: "PUT", headers: { "content-type": "audio/wav" }, body: wav })).status

describe("KILN_SIGNING_KEYS on an installation with a key in its store", () => {
  it("keeps issued URLs valid until the key in the store is dropped", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    const configured = { ...env, KILN_SIGNING_KEYS: `own:${randomBytes(32).toString("base64")}` }
    const urls: Array<string> = []
    let key = ""
    let port = ""
    {
      await using kiln = await serve(env)
      key = kiln.listening.first_key?.key ?? ""
      ;({ port } = new URL(kiln.listening.url))
      const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" }
      for (let upload = 0; upload < 2; upload++) {
        const body = JSON.stringify({ format: "wav", declared_seconds: 1 })
        const created = await fetch(`${kiln.listening.url}/v1/audio/uploads`, { method: "POST", headers, body })
        urls.push((await created.json()).upload_url)
      }
    }
    const [first = "", second = ""] = urls
    {
      await using kiln = await serve({ ...configured, PORT: port })
      expect(kiln.stderr).toMatch(/kiln signing-key drop/)
      expect(await put(first)).toBe(204)
    }
    const refused = await run(["signing-key", "drop"], env)
    expect(refused).toMatchObject({ exit: 2, stdout: "", stderr: expect.stringContaining("KILN_SIGNING_KEYS") })
    expect(await runJson(["signing-key", "drop"], configured)).toEqual({ dropped: true })
    expect(await runJson(["signing-key", "drop"], configured)).toEqual({ dropped: false })
    await using kiln = await serve({ ...configured, PORT: port })
    expect(await put(second)).toBe(403)
    expect(kiln.stderr).not.toMatch(/kiln signing-key drop/)
  })
})
