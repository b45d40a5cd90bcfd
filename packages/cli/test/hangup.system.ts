import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { Api } from "./support/Api.ts"
import { hasTerminal, inTerminal, pidInTerminal } from "./support/inTerminal.ts"
import { run, serve, temporaryDirectory, until, wav } from "@kiln/service-lab"
import { storedJobs } from "./support/storedJobs.ts"

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** Whether a service answers. */
const answers = (url: string): Promise<boolean> =>
  fetch(`${url}/healthz`).then(
    (response) => response.ok,
    () => false,
  )

describe("SIGHUP", () => {
  it("does not stop a service without a terminal, however often it arrives", async () => {
    using data = temporaryDirectory()
    await using kiln = await serve({ KILN_DATA_DIR: data.path })
    const api = new Api(kiln.listening.url, kiln.listening.first_key?.key ?? "")
    const id = await api.createSpeech("sandbox:delay:1")
    for (let times = 1; times <= 3; times++) {
      kiln.kill("SIGHUP")
      await until(() =>
        kiln.stderr.match(/SIGHUP: reloaded; no setting has changed/g)?.length === times ? true : undefined,
      )
    }
    expect((await api.finished(id)).status).toBe("done")
    expect(await answers(kiln.listening.url)).toBe(true)
    kiln.kill("SIGTERM")
    expect((await kiln.ended()).exit).toBe(0)
  })

  it("applies changed files of settings, and nothing if one of them is invalid", async () => {
    using data = temporaryDirectory()
    const [limits, slots, keys] = ["limits", "slots", "keys"].map((name) => join(data.path, name)) as [
      string,
      string,
      string,
    ]
    const secrets = [1, 2].map((byte) => Buffer.alloc(32, byte).toString("base64"))
    writeFileSync(limits, "off\n")
    writeFileSync(slots, "4\n")
    writeFileSync(keys, `a:${secrets[0]}`)
    await using kiln = await serve({
      KILN_DATA_DIR: data.path,
      KILN_RATE_LIMITS_FILE: limits,
      KILN_CONCURRENCY_FILE: slots,
      KILN_SIGNING_KEYS_FILE: keys,
    })
    const { first_key, url } = kiln.listening
    const announce = async () => {
      const response = await fetch(`${url}/v1/audio/uploads`, {
        method: "POST",
        headers: { authorization: `Bearer ${first_key?.key}`, "content-type": "application/json" },
        body: JSON.stringify({ format: "wav", declared_seconds: 1 }),
      })
      return { policy: response.headers.get("ratelimit-policy"), body: await response.json() }
    }
    const put = async (to: string) =>
      (await fetch(to, { method: "PUT", headers: { "content-type": "audio/wav" }, body: new Uint8Array(wav(1)) }))
        .status
    const before = await announce()
    expect(before.policy).toBeNull()
    expect(before.body.upload_url).toContain("k=a&")

    writeFileSync(limits, `{"upload":{"per_minute":67,"burst":9}}`)
    writeFileSync(slots, "5")
    writeFileSync(keys, `b:${secrets[1]},a:${secrets[0]}`)
    kiln.kill("SIGHUP")
    await kiln.says(/SIGHUP: reloaded KILN_SIGNING_KEYS, KILN_RATE_LIMITS/, "stderr")
    expect(kiln.stderr).toMatch(/SIGHUP: restart kiln to apply changes of KILN_CONCURRENCY/)
    const after = await announce()
    expect(after.policy).toContain("67")
    expect(after.body.upload_url).toContain("k=b&")
    expect(await put(before.body.upload_url)).toBe(204)

    writeFileSync(limits, "nonsense")
    writeFileSync(keys, `c:${secrets[0]}`)
    kiln.kill("SIGHUP")
    await kiln.says(/SIGHUP: nothing reloaded: KILN_RATE_LIMITS must/, "stderr")
    expect(await put(after.body.upload_url)).toBe(204)
    expect((await announce()).body.upload_url).toContain("k=b&")
    expect(kiln.stderr).not.toContain(secrets[0]?.slice(0, 20))
  })

  it("makes a service read the signing keys in the store again", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    await using kiln = await serve(env)
    for (const args of [
      ["add", "new", "--generate"],
      ["use", "new"],
    ]) {
      expect((await run(["signing-key", ...args], env)).exit).toBe(0)
      kiln.stderr = ""
      kiln.kill("SIGHUP")
      await kiln.says(/SIGHUP: reloaded/, "stderr")
    }
    const response = await fetch(`${kiln.listening.url}/v1/audio/uploads`, {
      method: "POST",
      headers: { authorization: `Bearer ${kiln.listening.first_key?.key}`, "content-type": "application/json" },
      body: JSON.stringify({ format: "wav", declared_seconds: 1 }),
    })
    expect((await response.json()).upload_url).toContain("k=new&")
  })

  it("does not count as a second signal that exits immediately", async () => {
    using data = temporaryDirectory()
    await using kiln = await serve({ KILN_DATA_DIR: data.path })
    const api = new Api(kiln.listening.url, kiln.listening.first_key?.key ?? "")
    const id = await api.createSpeech("sandbox:delay:2")
    await until(async () => ((await api.job(id)).status === "processing" ? true : undefined))
    kiln.kill("SIGTERM")
    await kiln.says(/SIGTERM: shutting down/, "stderr")
    kiln.kill("SIGHUP")
    kiln.kill("SIGHUP")
    expect((await kiln.ended()).exit).toBe(0)
  })

  it("shuts down a service whose terminal is gone", async ({ skip }) => {
    if (!hasTerminal) return skip("no `script` of util-linux here to make a terminal with")
    using data = temporaryDirectory()
    await using terminal = inTerminal(["serve", "--json"], { KILN_DATA_DIR: data.path, PORT: "0" })
    const [line] = await terminal.says(/^\{.*\}/m)
    const { first_key, url } = JSON.parse(line)
    const api = new Api(url, first_key.key)
    const id = await api.createSpeech("sandbox:delay:2")
    await until(async () => ((await api.job(id)).status === "processing" ? true : undefined))
    const pid = pidInTerminal(terminal)
    terminal.kill("SIGKILL")
    await until(() => (isAlive(pid) ? undefined : true))
    // A worker that was killed would hold the job until its lease ends.
    const owner = { keyId: first_key.key_id, projectId: first_key.project_id, mode: "sandbox", scopes: [] } as const
    expect(await storedJobs(data.path, owner, [id])).toMatchObject([{ held: false, failures: 0, lostWorkers: 0 }])
  })
})
