// Writes docs/openapi.json and docs/openapi-admin.json, and the types and the table of kinds of the client for promises, from what @kiln/client/api exports; or with `--check`
// fails if they differ.
import { spawnSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import spectralCore from "@stoplight/spectral-core"
import spectralRulesets from "@stoplight/spectral-rulesets"
import { HttpApi, OpenApi } from "effect/http-api"
import { clientTypes } from "./clientTypes.ts"
import { difference } from "./difference.ts"

const repository = join(import.meta.dirname, "..")
const committed = join(repository, "docs/openapi.json")
const committedAdmin = join(repository, "docs/openapi-admin.json")
const committedTypes = join(repository, "packages/client/src/wire.ts")

/**
 * Returns the only API description among the exports of a module, as stable text: an OpenAPI document, or an `HttpApi` from
 * which one is derived.
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

/** Rules of which one excludes another one: the license has an `identifier`, and so no `url`; a contact is different in each installation. */
const ruleset = {
  extends: [[spectralRulesets.oas, "all"]],
  rules: { "license-url": "off", "contact-properties": "off" },
}

/** Returns all findings of all other rules of Spectral about a document. */
export const lintByAllRules = async (document: unknown): Promise<ReadonlyArray<string>> => {
  const spectral = new spectralCore.Spectral()
  spectral.setRuleset(ruleset as never)
  const findings = await spectral.run(document as never)
  return findings.map(({ code, message, path }) => `${path.join(".")}: ${message} (${code})`)
}

/** Returns redocly's findings about a document, warnings too. Telemetry and update checks are off. */
export const lintDescription = (path: string, cwd = repository) => {
  const redocly = join(repository, "node_modules/@redocly/cli/bin/cli.js")
  const env = { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" }
  const args = [redocly, "lint", "--config", join(repository, "redocly.yaml"), path]
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd, env, encoding: "utf8", timeout: 60_000 })
  const output = `${stdout}${stderr}`
  return { status: /You have \d+ warning/.test(output) ? 1 : status, output }
}

/** As the formatter leaves it, so that both checks agree. */
const formatted = (text: string): string => {
  const { status, stderr, stdout } = spawnSync("oxfmt", ["--stdin-filepath", committedTypes], {
    input: text,
    encoding: "utf8",
    env: { ...process.env, PATH: `${join(repository, "node_modules/.bin")}:${process.env["PATH"]}` },
  })
  if (status !== 0) throw new Error(`the types are not TypeScript: ${stderr}`)
  return stdout
}

if (import.meta.main) {
  const api = await import("@kiln/client/api")
  const generated = describeApi(api)
  const { adminDocument } = await import("@kiln/dashboard/api")
  const routes = api.builtInRoutes.map((route) => ({ ...route, output: api.outputNames(route) }))
  const outputs = [
    ["docs/openapi.json", committed, generated],
    ["docs/openapi-admin.json", committedAdmin, describeApi({ document: adminDocument() })],
    ["packages/client/src/wire.ts", committedTypes, formatted(clientTypes(JSON.parse(generated), routes))],
  ] as const
  if (process.argv.includes("--check")) {
    const stale = outputs.flatMap(([name, path, text]) => {
      const problem = difference(text, path)
      return problem === undefined ? [] : [`${name} ${problem}: run \`npx -y pnpm@12 openapi\``]
    })
    for (const problem of stale) console.log(problem)
    const linted = [committed, committedAdmin].map((path) => lintDescription(path))
    for (const { output } of linted) console.log(output.trim())
    const texts = [committed, committedAdmin].map((path) => readFileSync(path, "utf8"))
    const findings = (await Promise.all(texts.map((text) => lintByAllRules(JSON.parse(text))))).flat()
    for (const finding of findings) console.log(finding)
    const isClean = stale.length + findings.length === 0 && linted.every(({ status }) => status === 0)
    process.exitCode = isClean ? 0 : 1
  } else {
    for (const [name, path, text] of outputs) {
      writeFileSync(path, text)
      console.log(`wrote ${name}`)
    }
  }
}
