import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import { join } from "node:path"
import { once } from "node:events"
import type { AddressInfo } from "node:net"
import { describe, expect, it } from "vitest"
import { temporaryDirectory, wav } from "@kiln/service-lab"
import { jsonOf, refusalOf, runInProcess } from "../support/runInProcess.ts"

/** A service that answers everything with one error. */
const refusing = async (status: number, error: object) => {
  const server = createServer((request, response) => {
    request.resume()
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify({ error }))
  }).listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port } = server.address() as AddressInfo
  return {
    environment: { KILN_URL: `http://127.0.0.1:${port}/`, KILN_API_KEY: "kiln_test_x" },
    [Symbol.dispose]: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}

describe("kiln try without a service", () => {
  it("speaks, transcribes and draws on a service of its own, and leaves only the files that were asked for", async () => {
    using place = temporaryDirectory()
    const at = (name: string) => join(place.path, name)
    writeFileSync(at("question.wav"), wav(3, 8_000))
    mkdirSync(at("out"))

    const spoken = await runInProcess(["try", "speak", "Hello", "-o", at("out/hello.mp3")])
    expect(spoken).toMatchObject({ exit: 0, stdout: "" })
    expect(spoken.stderr).toMatch(
      /^No --url: .*\n(job_\w+) queued\n(processing: .*\n)?\1 done, .* s, not charged\nwrote .*hello\.mp3 \(\d+ kB\)\n$/,
    )
    expect(readFileSync(at("out/hello.mp3")).readUInt16BE(0) & 0xffe0).toBe(0xffe0)

    const transcript = await runInProcess(["try", "transcribe", at("question.wav")])
    expect(transcript).toMatchObject({ exit: 0, stdout: expect.stringMatching(/^.*3\.0 seconds.*\n$/) })
    expect(transcript.stderr).toMatch(/^sent 25 kB in /m)

    const drawn = await jsonOf(["try", "image", "a red lighthouse", "-o", at("out/lighthouse.png")], {})
    expect(drawn).toMatchObject({ type: "image_generation", status: "done", text: null, error_code: null })
    expect(drawn.files).toMatchObject([{ path: at("out/lighthouse.png"), media_type: "image/png" }])
    expect(readFileSync(at("out/lighthouse.png")).subarray(1, 4).toString()).toBe("PNG")
    expect(readdirSync(at("out")).toSorted()).toEqual(["hello.mp3", "lighthouse.png"])
  })

  it("fails as the job fails, with its code and a remedy", async () => {
    using place = temporaryDirectory()
    const place3 = join(place.path, "x.mp3")
    const { exit, stderr, stdout } = await runInProcess([
      "try",
      "speak",
      "sandbox:fail:content_rejected",
      "-o",
      place3,
      "--json",
    ])
    expect(exit).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({ status: "failed", error_code: "content_rejected", files: [] })
    expect(stderr).toMatch(/^kiln: job_\w+ failed: content_rejected: the provider rejected the content; change it\n$/)
    expect(readdirSync(place.path)).toEqual([])
  })
})

describe("kiln try --curl", () => {
  it("prints each request with the key as a variable, and sends and writes nothing", async () => {
    using place = temporaryDirectory()
    const path = join(place.path, "question.wav")
    writeFileSync(path, wav(3, 8_000))
    const { exit, stderr, stdout } = await runInProcess(["try", "transcribe", path, "--curl"], {
      KILN_API_KEY: "secret",
    })
    expect({ exit, stderr }).toEqual({ exit: 0, stderr: "" })
    expect(stdout).not.toContain("secret")
    expect(stdout).toMatch(/^kiln=http:\/\/127\.0\.0\.1:8787$/m)
    const paths = [...stdout.matchAll(/curl -sS "\$kiln([^"]*)"/g)].map(([, at]) => at)
    expect(paths).toEqual(["/v1/audio/uploads", "/v1/audio/transcriptions", "/v1/jobs/$id"])
    expect(stdout).toContain(`-d '{"declared_seconds":3,"format":"wav"}'`)
    const { commands } = await jsonOf(["try", "image", "it's red", "--curl", "-o", path], {
      KILN_URL: "http://x.example/",
    })
    expect(commands).toContain(`-d '{"prompt":"it'\\''s red"}'`)
    expect(commands).toContain("kiln=http://x.example\n")
    expect(readdirSync(place.path)).toEqual(["question.wav"])
  })
})

describe("kiln try refuses before it sends anything", () => {
  it("files that exist, recordings that the service would refuse, and services without a key", async () => {
    using place = temporaryDirectory()
    const at = (name: string) => join(place.path, name)
    writeFileSync(at("taken.mp3"), "mine")
    writeFileSync(at("text.mp3"), "this is no recording")
    writeFileSync(at("long.wav"), wav(1_000))
    writeFileSync(at("large.wav"), Buffer.concat([wav(1), Buffer.alloc(26_214_400)]))
    const refused = async (args: ReadonlyArray<string>, environment = {}, exit: 1 | 2 = 1) =>
      refusalOf(["try", ...args], environment, exit)

    expect(await refused(["speak", "Hello", "-o", at("taken.mp3")])).toContain("already exists: name another file")
    expect(readFileSync(at("taken.mp3"), "utf8")).toBe("mine")
    expect(await refused(["speak", "Hello", "-o", at("no/where.mp3")])).toContain("cannot write to")
    expect(await refused(["transcribe", at("text.mp3")])).toContain("is not audio in a format that kiln reads")
    expect(await refused(["transcribe", at("long.wav")])).toContain("lasts 1000 s; a recording may last at most 900 s")
    expect(await refused(["transcribe", at("large.wav")])).toContain("a file may have at most 26.2 MB")
    expect(await refused(["speak", "Hello"], { KILN_URL: "http://127.0.0.1:1" }, 2)).toContain("set KILN_API_KEY")
    expect(await refused(["speak", "Hello"], { KILN_API_KEY: "x" }, 2)).toContain("needs the address of its service")
    expect(await refused(["job", "job_x"], {}, 2)).toContain("pass --url")
    expect(await refused(["speak", "Hello", "--url", "ftp://x"], { KILN_API_KEY: "x" }, 2)).toContain("--url must be")
  })
})

describe("kiln try on a running service", () => {
  const envelope = { type: "", param: null, details: null, request_id: "req_1" }

  it("says what to do about a refusal", async () => {
    using keyless = await refusing(401, { ...envelope, code: "invalid_api_key", message: "The key is not valid." })
    expect(await refusalOf(["try", "speak", "Hello"], keyless.environment, 1)).toMatch(
      /^kiln: invalid_api_key: The key is not valid: pass a key of this service .* \(request req_1\)\n$/,
    )
    const missing = ["switch:ai", "price:svc-audio"]
    const message = "Live jobs are not active."
    using inactive = await refusing(403, { ...envelope, code: "live_not_active", message, details: { missing } })
    expect(await refusalOf(["try", "speak", "Hello"], inactive.environment, 1)).toMatch(
      /kiln switch on ai; kiln price set svc-audio .*, then kiln price activate svc-audio/,
    )
    const errors = [{ param: "voice", reason: "enum", message: "must be one of the voices", allowed: ["alloy"] }]
    using invalid = await refusing(400, { ...envelope, code: "invalid_request", message: "x", details: { errors } })
    expect(await refusalOf(["try", "speak", "Hello", "--voice", "x"], invalid.environment, 2)).toBe(
      "kiln: --voice: must be one of the voices (alloy)\n",
    )
  })

  it("does not warn about its variables in other commands", async () => {
    const { stderr } = await runInProcess(["config", "show"], { KILN_URL: "http://127.0.0.1:1", KILN_API_KEY: "x" })
    expect(stderr).toBe("")
  })
})
