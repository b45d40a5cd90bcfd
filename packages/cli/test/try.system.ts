import { readdirSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { KilnProcess, serve, temporaryDirectory } from "@kiln/service-lab"

describe("kiln try, stopped by a signal", () => {
  it("removes its own service, and ends by that signal", async () => {
    using place = temporaryDirectory()
    await using kiln = new KilnProcess(["try", "speak", "sandbox:delay:60", "-o", join(place.path, "x.mp3")], {
      TMPDIR: place.path,
    })
    await kiln.says(/job_\w+ queued\n/, "stderr")
    expect(readdirSync(place.path)).toEqual([expect.stringMatching(/^kiln-try-/)])
    kiln.kill("SIGTERM")
    expect((await kiln.ended()).exit).toBe("SIGTERM")
    expect(readdirSync(place.path)).toEqual([])
  })

  it("leaves the job of a running service running, and says how to watch it", async () => {
    using data = temporaryDirectory()
    await using server = await serve({ KILN_DATA_DIR: data.path })
    const { first_key, url } = server.listening
    await using kiln = new KilnProcess(["try", "speak", "sandbox:delay:60", "-o", join(data.path, "x.mp3")], {
      KILN_URL: url,
      KILN_API_KEY: first_key?.key ?? "",
    })
    const [, id] = await kiln.says(/(job_\w+) queued\n/, "stderr")
    kiln.kill("SIGINT")
    const { exit, stderr } = await kiln.ended()
    expect(exit).toBe("SIGINT")
    expect(stderr).toContain(`${id} keeps running: kiln try job ${id} --watch --url ${url}\n`)
  })
})
