import { spawn } from "node:child_process"
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { pathToFileURL } from "node:url"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { type RunningService, startService } from "./support/startService.ts"

const repository = join(import.meta.dirname, "../../..")
const description = join(repository, "docs/openapi.json")
const typescriptWithApi = pathToFileURL(join(repository, "scripts/typescriptWithApi.mjs")).href

interface Tool {
  readonly generate: readonly [script: string, ...args: ReadonlyArray<string>]
  /** A program over the generated code, which also shows what must not compile. */
  readonly program: string
}

const print = `const { origin } = new URL(url)
console.log(JSON.stringify(results).replaceAll(origin, "").replace(/files\\/fil_[^"]*/, "files/…"))
`
const settings = `const url = process.env["KILN_URL"] ?? ""
const key = process.env["KILN_KEY"] ?? ""
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
`

const tools: Readonly<Record<string, Tool>> = {
  "openapi-typescript, with openapi-fetch": {
    generate: ["openapi-typescript/bin/cli.js", "./openapi.json", "-o", "./schema.ts"],
    program: `import createClient from "openapi-fetch"
import type { components, paths } from "./schema.js"
${settings}
const client = createClient<paths>({ baseUrl: url, headers: { Authorization: \`Bearer \${key}\` } })
const params = { header: { "Idempotency-Key": crypto.randomUUID() } }
const created = await client.POST("/v1/audio/speech", { params, body: { input: "Hello", voice: "nova" } })
if (created.data === undefined) throw new Error(created.error.error.message)
const type: "speech_synthesis" = created.data.type
const { id } = created.data
const poll = () => client.GET("/v1/jobs/{id}", { params: { path: { id } } })
let job: components["schemas"]["AudioJobState"] | undefined
while (job?.status !== "done" && job?.status !== "failed") {
  await pause(200)
  job = (await poll()).data
}
const refused = await client.POST("/v1/audio/speech", { params, body: { input: "", voice: "nova" } })
const code: components["schemas"]["InvalidRequest"]["error"]["code"] | undefined | string = refused.error?.error.code
// @ts-expect-error a field that is missing
void (() => client.POST("/v1/audio/speech", { params, body: { voice: "nova" } }))
// @ts-expect-error a header that is missing
void (() => client.POST("/v1/audio/speech", { body: { input: "x" } }))
// @ts-expect-error a code that no speech can be refused with
void (refused.error?.error.code === "job_not_found")
const amount: string | null = job.billing.amount
const results = { type, status: job.status, url: job.output?.audio_url, amount, code }
${print}`,
  },
  "@hey-api/openapi-ts": {
    generate: [
      "@hey-api/openapi-ts/bin/run.js",
      "-i",
      "./openapi.json",
      "-o",
      "./generated",
      "--silent",
      "--no-log-file",
    ],
    program: `import { client } from "./generated/client.gen.js"
import { createSpeech, pollAudioJob, type AudioJobState } from "./generated/index.js"
${settings}
client.setConfig({ baseUrl: url, auth: key })
const headers = { "Idempotency-Key": crypto.randomUUID() }
const created = await createSpeech({ headers, body: { input: "Hello", voice: "nova" } })
if (created.data === undefined) throw new Error(created.error.error.message)
const type: "speech_synthesis" = created.data.type
const { id } = created.data
let job: AudioJobState | undefined
while (job?.status !== "done" && job?.status !== "failed") {
  await pause(200)
  job = (await pollAudioJob({ path: { id } })).data
}
const refused = await createSpeech({ headers, body: { input: "", voice: "nova" } })
const code = refused.error?.error.code
// @ts-expect-error a field that is missing
void (() => createSpeech({ headers, body: { voice: "nova" } }))
// @ts-expect-error a header that is missing
void (() => createSpeech({ body: { input: "x" } }))
// @ts-expect-error a code that no speech can be refused with
void (refused.error?.error.code === "job_not_found")
const amount: string | null = job.billing.amount
const results = { type, status: job.status, url: job.output?.audio_url, amount, code }
${print}`,
  },
}

/** As a stranger has it; only \`skipLibCheck\` is not strict. */
const tsconfig = {
  compilerOptions: {
    target: "ES2022",
    lib: ["ES2022", "DOM"],
    module: "NodeNext",
    types: ["node"],
    strict: true,
    skipLibCheck: true,
    rootDir: ".",
    outDir: "./out",
  },
  include: ["*.ts", "generated/**/*.ts"],
}

let directory: string
let service: RunningService
beforeAll(async () => {
  // Below the repository, where packages resolve as they do for a reader who installed them.
  mkdirSync(join(repository, ".snippets"), { recursive: true })
  directory = mkdtempSync(join(repository, ".snippets/generated-"))
  service = await startService()
})
afterAll(async () => {
  rmSync(directory, { recursive: true, force: true })
  await service[Symbol.asyncDispose]()
})

const node = async (cwd: string, args: ReadonlyArray<string>, environment: Readonly<Record<string, string>> = {}) => {
  const { NODE_OPTIONS: _, ...inherited } = process.env
  const env = { ...inherited, NO_COLOR: "1", ...environment }
  const child = spawn(process.execPath, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"], timeout: 60_000 })
  const ended = new Promise<number | null>((resolve, reject) => child.on("error", reject).on("close", resolve))
  const [stdout, stderr, exitCode] = await Promise.all([text(child.stdout), text(child.stderr), ended])
  return { exitCode, output: `${stdout}${stderr}` }
}

describe("client generators understand the OpenAPI document", () => {
  it.each(Object.entries(tools))("%s", async (name, { generate: [script, ...args], program }) => {
    const place = join(directory, name.replaceAll(/\W+/g, "-"))
    mkdirSync(place)
    writeFileSync(join(place, "openapi.json"), readFileSync(description))
    writeFileSync(join(place, "package.json"), JSON.stringify({ type: "module" }))
    writeFileSync(join(place, "tsconfig.json"), JSON.stringify(tsconfig))
    writeFileSync(join(place, "program.ts"), program)

    const modules = join(repository, "node_modules")
    const generated = await node(place, [join(modules, script), ...args], {
      NODE_OPTIONS: `--import=${typescriptWithApi}`,
    })
    expect(generated, generated.output).toMatchObject({ exitCode: 0 })
    const compiled = await node(place, [join(modules, "typescript/bin/tsc"), "--pretty", "false"])
    expect(compiled).toEqual({ exitCode: 0, output: "" })

    const ran = await node(place, ["out/program.js"], { KILN_URL: service.url, KILN_KEY: service.key })
    expect(ran, ran.output).toMatchObject({ exitCode: 0 })
    expect(JSON.parse(ran.output)).toEqual({
      type: "speech_synthesis",
      status: "done",
      url: "/v1/files/…",
      amount: "0",
      code: "invalid_request",
    })
  })
})
