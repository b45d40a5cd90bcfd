import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { UploadRequest } from "@kiln/core/effect"
import { builtInKinds, decodeFields, type FieldsSchema } from "@kiln/core/kinds"
import { OpenApi } from "effect/http-api"
import { describe, expect, it } from "vitest"
import { errorCatalogue, KilnApi } from "@kiln/client/api"
import { openApiDocument } from "../../src/index.ts"
import { startServer } from "./startServer.ts"

interface Operation {
  readonly operationId: string
  readonly summary?: string
  readonly security: ReadonlyArray<unknown>
  readonly responses: Readonly<Record<string, { readonly headers: object; readonly content?: object }>>
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: { readonly $ref: string } }>> }
}
const spec = OpenApi.fromApi(KilnApi)
const operations = Object.entries(spec.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => [method.toUpperCase(), path, operation as Operation] as const),
)

/** What it takes for the paths to name something. */
const ids = {
  upl: "upl_00000000000000000000000000",
  job: "job_00000000000000000000000000",
  fil: "fil_00000000000000000000000000",
}
const concrete = (path: string) =>
  path.replace("{id}", path.includes("/uploads/") ? ids.upl : path.includes("/files/") ? ids.fil : ids.job)

describe("the OpenAPI document", () => {
  it("has the endpoints of the specification", () => {
    expect(operations.map(([method, path]) => `${method} ${path}`).sort()).toEqual(
      [
        "DELETE /v1/images/jobs/{id}/data",
        "DELETE /v1/jobs/{id}/data",
        "GET /healthz",
        "GET /readyz",
        "GET /v1/files/{id}",
        "GET /v1/images/jobs/{id}",
        "GET /v1/jobs/{id}",
        "HEAD /v1/files/{id}",
        "POST /v1/audio/speech",
        "POST /v1/audio/transcriptions",
        "POST /v1/audio/uploads",
        "POST /v1/images/generations",
        "POST /v1/voice/turns",
        "PUT /v1/audio/uploads/{id}/file",
      ].sort(),
    )
  })

  it("matches the server's routes: every operation exists, and nothing else is allowed", async () => {
    await using server = await startServer()
    const byPath = Map.groupBy(operations, ([, path]) => path)
    for (const [path, described] of byPath) {
      for (const [method] of described) {
        const response = await fetch(server.url + concrete(path), { method })
        expect(response.status, `${method} ${path}`).not.toBe(405)
        const answer = await response.text()
        expect(answer, `${method} ${path}`).not.toContain('"not_found"')
      }
      const wrong = await fetch(server.url + concrete(path), { method: "PATCH" })
      expect(wrong.status).toBe(405)
      const allowed = (wrong.headers.get("allow") ?? "").split(", ").filter((method) => method !== "HEAD")
      expect(allowed).toEqual(described.map(([method]) => method).filter((method) => method !== "HEAD"))
    }
  })

  it("lists every code of the catalogue that an operation can return, under its status", () => {
    const described = new Set<string>()
    for (const [, , operation] of operations)
      for (const [status, { content }] of Object.entries(operation.responses))
        for (const [, name = ""] of JSON.stringify(content ?? {}).matchAll(/schemas\/([A-Za-z]+)/g)) {
          const schema = JSON.stringify(spec.components.schemas[name])
          const code = /"code":\{"type":"string","enum":\["([a-z_]+)"\]/.exec(schema)?.[1]
          if (code === undefined) continue
          described.add(code)
          expect(String(errorCatalogue[code as keyof typeof errorCatalogue].status), code).toBe(status)
        }
    // These are responses outside of any operation: malformed HTTP, another path, another method; and to signals, which only custom kinds receive.
    const outside = ["malformed_request", "request_timeout", "not_found", "method_not_allowed", "job_finished"]
    expect([...described, ...outside].sort()).toEqual(Object.keys(errorCatalogue).sort())
  })

  it("documents the purpose, authorization and response headers of every operation", () => {
    for (const [method, path, operation] of operations) {
      const name = `${method} ${path}`
      expect(operation.summary, name).toMatch(/\S/)
      const isApi = path.startsWith("/v1/") && !path.includes("/files/") && method !== "PUT"
      expect(operation.security, name).toEqual(isApi ? [{ apiKey: [] }] : [])
      for (const response of Object.values(operation.responses))
        expect(Object.keys(response.headers), name).toContain("X-Request-Id")
      const always = isApi ? ["401", "403", "429", "500", "503"] : []
      expect(Object.keys(operation.responses), name).toEqual(expect.arrayContaining(always))
    }
  })

  it("lists the voices of the installation", () => {
    const { components, servers } = openApiDocument({
      serverUrl: "https://api.example",
      voices: { byName: { one: "1", two: "2" }, default: "one" },
    })
    expect(components.schemas["Voice"]).toMatchObject({ enum: ["one", "two"] })
    expect(servers).toEqual([{ url: "https://api.example" }])
    expect(spec.components.schemas["Voice"]).toMatchObject({
      enum: ["alloy", "echo", "fable", "nova", "onyx", "shimmer"],
    })
  })
})

type JsonSchema = Readonly<Record<string, unknown>>
const properties = (schema: unknown): Readonly<Record<string, JsonSchema>> =>
  (schema as JsonSchema)["properties"] as never
const toSnakeCase = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** The bounds a field is described with. */
const described = (field: JsonSchema): JsonSchema => {
  const name = /schemas\/([A-Za-z]+)$/.exec(String(field["$ref"]))?.[1]
  const {
    enum: allowed,
    exclusiveMinimum,
    maximum,
    maxLength,
    minimum,
  } = name === undefined ? field : (spec.components.schemas[name] as JsonSchema)
  return { allowed, exclusiveMin: exclusiveMinimum, max: maximum, maxLength, min: minimum }
}

/** The bounds the engine says a field has broken, whatever of these values broke them. */
const enforced = (schema: FieldsSchema<unknown>, field: string): JsonSchema => {
  const values = ["no such name", "x".repeat(100_000), -1_000_000, 1_000_000]
  const problems = values.flatMap((value) => {
    const decoded = decodeFields(schema, { [field]: value })
    return decoded._tag === "Failure" ? decoded.failure.filter((problem) => problem.field === field) : []
  })
  const { allowed, exclusiveMin, max, maxLength, min } = Object.assign({}, ...problems) as JsonSchema
  return { allowed, exclusiveMin, max, maxLength, min }
}

describe("the limits in the OpenAPI document", () => {
  const kinds = new Map(builtInKinds().map((kind) => [kind.name, kind.request]))
  const requests: ReadonlyArray<readonly [name: string, engine: FieldsSchema<never> | undefined]> = [
    ["CreateUpload", UploadRequest as never],
    ["CreateTranscription", kinds.get("transcription") as never],
    ["CreateSpeech", kinds.get("speech_synthesis") as never],
    ["CreateVoiceTurn", kinds.get("voice_turn") as never],
    ["CreateImage", kinds.get("image_generation") as never],
  ]

  it.each(requests)("%s: match those that the engine enforces, field by field, in the same order", (name, engine) => {
    const declared = spec.components.schemas[name] as JsonSchema
    const fields = Object.keys(engine?.fields ?? {})
    expect(Object.keys(properties(declared))).toEqual(fields.map(toSnakeCase))
    const missing = decodeFields(engine as never, {})
    const required = missing._tag === "Failure" ? missing.failure.map(({ field }) => toSnakeCase(field)) : []
    expect(declared["required"]).toEqual(required)
    for (const field of fields)
      expect(described(properties(declared)[toSnakeCase(field)] ?? {}), field).toEqual(enforced(engine as never, field))
  })

  it("match the contract", () => {
    const field = (name: string, of: string) => described(properties(spec.components.schemas[name])[of] ?? {})
    expect(field("CreateUpload", "declared_seconds")).toMatchObject({ exclusiveMin: 0, max: 900 })
    expect(field("CreateSpeech", "input")).toMatchObject({ maxLength: 4_096 })
    expect(field("CreateVoiceTurn", "max_output_tokens")).toMatchObject({ min: 1, max: 1_024 })
    expect(field("CreateVoiceTurn", "instructions")).toMatchObject({ maxLength: 4_096 })
    expect(field("CreateImage", "prompt")).toMatchObject({ maxLength: 4_000 })
  })
})

it("the declarations import neither the server nor the engine", () => {
  const client = join(import.meta.dirname, "../../../client/src")
  for (const folder of ["api", "routes"])
    for (const file of readdirSync(join(client, folder)))
      expect(readFileSync(join(client, folder, file), "utf8"), file).not.toMatch(
        /from "(@kiln\/(core(\/effect|\/worker)?|http)"|node:)/,
      )
})
