// Writes docs/openapi.json from what @kiln/http exports, or with `--check` fails if they differ.
import { spawnSync } from "node:child_process"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { HttpApi, OpenApi } from "effect/http-api"

const repository = join(import.meta.dirname, "..")
const committed = join(repository, "docs/openapi.json")

/**
 * The one description of an API among what a module exports, as text that is the same every time: an OpenAPI document as it
 * is served, or an `HttpApi` to derive one from.
 */
export const describeApi = (exported: Readonly<Record<string, unknown>>): string => {
  const descriptions = Object.values(exported).filter((value) => HttpApi.isHttpApi(value) || isDocument(value))
  const [description] = descriptions
  if (description === undefined || descriptions.length > 1) {
    throw new Error(`expected one HttpApi or OpenAPI document among the exports, found ${descriptions.length}`)
  }
  return `${JSON.stringify(HttpApi.isHttpApi(description) ? OpenApi.fromApi(description) : description, null, 2)}\n`
}

const isDocument = (value: unknown): boolean =>
  typeof value === "object" && value !== null && "openapi" in value && typeof value.openapi === "string"

/** What redocly has to say about a description; it neither reports home nor asks for newer versions of itself. */
export const lintDescription = (path: string, cwd = repository) => {
  const redocly = join(repository, "node_modules/@redocly/cli/bin/cli.js")
  const env = { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" }
  const args = [redocly, "lint", "--config", join(repository, "redocly.yaml"), path]
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd, env, encoding: "utf8", timeout: 60_000 })
  return { status, output: `${stdout}${stderr}` }
}

/** Why the committed description is not the generated one, or undefined when it is. */
export const difference = (generated: string, path: string): string | undefined => {
  if (!existsSync(path)) return "is not there"
  const written = readFileSync(path, "utf8")
  if (written === generated) return undefined
  const lines = written.split("\n")
  const at = generated.split("\n").findIndex((line, index) => line !== lines[index])
  return `is out of date from line ${at + 1}`
}

if (import.meta.main) {
  const generated = describeApi(await import("@kiln/http"))
  if (process.argv.includes("--check")) {
    const stale = difference(generated, committed)
    if (stale !== undefined) console.log(`docs/openapi.json ${stale}: run \`npx -y pnpm@12 openapi\``)
    const { status, output } = lintDescription(committed)
    console.log(output.trim())
    process.exitCode = stale === undefined && status === 0 ? 0 : 1
  } else {
    writeFileSync(committed, generated)
    console.log("wrote docs/openapi.json")
  }
}
