import { spawn } from "node:child_process"
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { pathToFileURL } from "node:url"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { type RunningService, startService } from "./support/startService.ts"

const repository = join(import.meta.dirname, "../../..")
const modules = join(repository, "node_modules")
const programs = join(import.meta.dirname, "generators")
const typescriptWithApi = pathToFileURL(join(repository, "scripts/typescriptWithApi.mjs")).href

interface Tool {
  readonly command: readonly [script: string, ...args: ReadonlyArray<string>]
  /** The file for its standard output, if it writes none by itself. */
  readonly into?: string
  readonly files?: Readonly<Record<string, string>>
  /** Whether it uses the compiler that its project has. The others bring one. */
  readonly usesCompiler?: boolean
}

/** How docs/guides/client.md runs each generator, in a folder with `openapi.json`. Its program is in `generators/`. */
const tools: Readonly<Record<string, Tool>> = {
  openapiFetch: {
    command: ["openapi-typescript/bin/cli.js", "./openapi.json", "-o", "./schema.ts"],
    usesCompiler: true,
  },
  heyApi: {
    usesCompiler: true,
    command: [
      "@hey-api/openapi-ts/bin/run.js",
      "-i",
      "./openapi.json",
      "-o",
      "./generated",
      "--silent",
      "--no-log-file",
    ],
  },
  orval: {
    command: ["orval/dist/bin/orval.mjs", "--config", "./orval.config.mjs"],
    files: {
      "orval.config.mjs": `export default { kiln: {
        input: "./openapi.json",
        output: { target: "./generated.ts", client: "fetch", headers: true, baseUrl: { runtime: "process.env.KILN_URL" } },
      } }`,
    },
  },
  oazapfts: { command: ["oazapfts/dist/cli.js", "./openapi.json", "./generated.ts"] },
  openapiClientAxios: { command: ["openapi-client-axios-typegen/typegen", "./openapi.json"], into: "generated.d.ts" },
}
const names = Object.keys(tools)

/** As a stranger has it; only \`skipLibCheck\` is not strict. */
const tsconfig = {
  compilerOptions: {
    target: "ES2022",
    lib: ["ES2022", "DOM", "DOM.Iterable"],
    module: "NodeNext",
    types: ["node"],
    strict: true,
    skipLibCheck: true,
    rootDir: ".",
    outDir: "./out",
  },
}

interface Ran {
  readonly exitCode: number | null
  readonly stdout: string
  readonly stderr: string
}
const node = async (
  cwd: string,
  args: ReadonlyArray<string>,
  environment: Readonly<Record<string, string>> = {},
): Promise<Ran> => {
  const { NODE_OPTIONS: _, ...inherited } = process.env
  const env = { ...inherited, NO_COLOR: "1", ...environment }
  const child = spawn(process.execPath, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"], timeout: 120_000 })
  const ended = new Promise<number | null>((resolve, reject) => child.on("error", reject).on("close", resolve))
  const [stdout, stderr, exitCode] = await Promise.all([text(child.stdout), text(child.stderr), ended])
  return { exitCode, stdout, stderr }
}

let directory: string
let service: RunningService
const generated = new Map<string, Ran>()
let compiled: Ran
beforeAll(async () => {
  // Below the repository, where packages resolve as they do for a reader who installed them.
  mkdirSync(join(repository, ".snippets"), { recursive: true })
  directory = mkdtempSync(join(repository, ".snippets/generated-"))
  writeFileSync(join(directory, "package.json"), JSON.stringify({ type: "module" }))
  writeFileSync(join(directory, "tsconfig.json"), JSON.stringify(tsconfig))
  const starting = startService()
  for (const [name, { command, files = {}, into, usesCompiler = false }] of Object.entries(tools)) {
    const [script, ...args] = command
    const place = join(directory, name)
    mkdirSync(place)
    copyFileSync(join(repository, "docs/openapi.json"), join(place, "openapi.json"))
    copyFileSync(join(programs, "common.ts.txt"), join(place, "common.ts"))
    copyFileSync(join(programs, `${name}.ts.txt`), join(place, "program.ts"))
    for (const [file, content] of Object.entries(files)) writeFileSync(join(place, file), content)
    const environment = usesCompiler ? { NODE_OPTIONS: `--import=${typescriptWithApi}` } : {}
    const ran = await node(place, [join(modules, script), ...args], environment)
    if (into !== undefined) writeFileSync(join(place, into), ran.stdout)
    generated.set(name, ran)
  }
  compiled = await node(directory, [join(modules, "typescript/bin/tsc"), "--pretty", "false"])
  service = await starting
}, 300_000)
afterAll(async () => {
  rmSync(directory, { recursive: true, force: true })
  await service[Symbol.asyncDispose]()
})

describe("client generators understand the OpenAPI document", () => {
  it.each(names)("%s", { timeout: 120_000 }, async (name) => {
    const { exitCode, stderr } = generated.get(name) ?? {}
    expect(exitCode, stderr).toBe(0)
    const errors = compiled.stdout.split("\n").filter((line) => line.startsWith(`${name}/`))
    expect(errors, compiled.stdout).toEqual([])

    const program = join("out", name, "program.js")
    const ran = await node(directory, [program], { KILN_URL: service.url, KILN_KEY: service.key })
    expect(ran.exitCode, ran.stderr).toBe(0)
    expect(JSON.parse(ran.stdout)).toEqual({
      type: "speech_synthesis",
      amount: "0",
      spoken: { audio_url: expect.stringContaining("/v1/files/") },
      transcript: expect.stringContaining("wav file of 2.0 seconds"),
      text: expect.stringMatching(/./),
      audio_url: expect.stringContaining("/v1/files/"),
      drawn: { format: "png", size: "1024x1024", image_url: expect.stringContaining("/v1/files/") },
      code: "invalid_request",
    })
  })
})
