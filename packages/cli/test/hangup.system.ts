import { describe, expect, it } from "vitest"
import { Api } from "./support/Api.ts"
import { hasTerminal, inTerminal, pidInTerminal } from "./support/inTerminal.ts"
import { serve, temporaryDirectory, until } from "@kiln/service-lab"
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

describe("SIGHUP", { timeout: 120_000 }, () => {
  it("is ignored by a service without a terminal, however often it arrives", async () => {
    using data = temporaryDirectory()
    await using kiln = await serve({ KILN_DATA_DIR: data.path })
    const api = new Api(kiln.listening.url, kiln.listening.first_key?.key ?? "")
    const id = await api.createSpeech("sandbox:delay:1")
    for (let times = 1; times <= 3; times++) {
      kiln.kill("SIGHUP")
      await until(() => (kiln.stderr.match(/SIGHUP: ignored/g)?.length === times ? true : undefined))
    }
    expect((await api.finished(id)).status).toBe("done")
    expect(await answers(kiln.listening.url)).toBe(true)
    kiln.kill("SIGTERM")
    expect((await kiln.ended()).exit).toBe(0)
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
