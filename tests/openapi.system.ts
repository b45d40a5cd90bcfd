import { spawnSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { HttpApi, HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { afterAll, describe, expect, it } from "vitest"
import { difference } from "../scripts/difference.ts"
import { describeApi, lintByAllRules, lintDescription } from "../scripts/openapi.ts"

const directory = mkdtempSync(join(tmpdir(), "kiln-openapi-"))
afterAll(() => rmSync(directory, { recursive: true, force: true }))

const write = (name: string, text: string): string => {
  writeFileSync(join(directory, name), text)
  return join(directory, name)
}

const apiNamed = (path: "/first" | "/second") =>
  HttpApi.make("planted").add(HttpApiGroup.make("group").add(HttpApiEndpoint.get("read", path)))

describe("the OpenAPI document", () => {
  it("is generated from the one API or document among the exports", () => {
    const generated = describeApi({ limit: 1, Api: apiNamed("/first") })
    expect(JSON.parse(generated)).toMatchObject({ openapi: "3.1.0", paths: { "/first": { get: {} } } })
    expect(describeApi({ Api: apiNamed("/first") })).toBe(generated)
    expect(describeApi({ limit: 1, document: { openapi: "3.1.0" } })).toBe(`{\n  "openapi": "3.1.0"\n}\n`)
    expect(() => describeApi({ limit: 1, nothing: null, text: "openapi" })).toThrow("found 0")
    expect(() => describeApi({ Api: apiNamed("/first"), document: { openapi: "3.1.0" } })).toThrow("found 2")
    expect(() => describeApi({ One: apiNamed("/first"), Two: apiNamed("/second") })).toThrow("found 2")
  })

  it("is stale after the declarations change", () => {
    const path = write("stale.json", describeApi({ Api: apiNamed("/first") }))
    expect(difference(describeApi({ Api: apiNamed("/first") }), path)).toBeUndefined()
    expect(difference(describeApi({ Api: apiNamed("/second") }), path)).toMatch(/^is out of date from line \d+$/)
    expect(difference("", join(directory, "missing.json"))).toBe("is not there")
  })
})

describe("the lint of the OpenAPI document", () => {
  const sound = {
    openapi: "3.1.0",
    info: { title: "planted", version: "1.0.0", license: { name: "MIT", identifier: "MIT" } },
    servers: [{ url: "https://api.planted.dev" }],
    paths: {
      "/job": {
        get: {
          operationId: "read",
          summary: "Read",
          security: [],
          responses: { 200: { description: "A job" }, 404: { description: "None" } },
        },
      },
    },
  }

  const withoutNetwork = <A>(run: () => A): A => {
    const before = process.env["NODE_OPTIONS"]
    process.env["NODE_OPTIONS"] =
      `--import=${pathToFileURL(join(import.meta.dirname, "support/refuseNetwork.mjs")).href}`
    try {
      return run()
    } finally {
      if (before === undefined) delete process.env["NODE_OPTIONS"]
      else process.env["NODE_OPTIONS"] = before
    }
  }

  it("passes a valid one and fails an invalid one, and connects to no other machine", () => {
    const good = withoutNetwork(() => lintDescription(write("sound.json", JSON.stringify(sound))))
    expect(good).toMatchObject({ status: 0, output: expect.not.stringContaining("network refused") })
    const bad = withoutNetwork(() =>
      lintDescription(write("broken.json", JSON.stringify({ ...sound, paths: { "/job": { get: {} } } }))),
    )
    expect(bad).toMatchObject({ status: 1, output: expect.not.stringContaining("network refused") })
  })

  it("counts a warning as a problem", async () => {
    const { get } = sound.paths["/job"]
    const anyOf = [{ type: "string" }]
    const response = { description: "A job", content: { "application/json": { schema: { anyOf } } } }
    const odd = { ...sound, paths: { "/job": { get: { ...get, responses: { ...get.responses, 200: response } } } } }
    const warned = lintDescription(write("odd.json", JSON.stringify(odd)))
    expect([warned.status, warned.output]).toEqual([1, expect.stringContaining("You have 1 warning")])
    expect(await lintByAllRules(odd)).toContainEqual(expect.stringContaining("operation-description"))
  })

  it.each([
    `fetch("https://api.planted.dev").catch(() => {})`,
    `require("https").get("https://api.planted.dev").on("error", () => {})`,
  ])("would notice an attempt: %s", (code) => {
    const { stderr } = withoutNetwork(() =>
      spawnSync(process.execPath, ["-e", code], { encoding: "utf8", timeout: 30_000 }),
    )
    expect(stderr).toContain("network refused")
  })
})
