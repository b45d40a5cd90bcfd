import { spawnSync } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { afterAll, expect, it } from "vitest"

const support = join(import.meta.dirname, "support")
const cacheDirectory = mkdtempSync(join(tmpdir(), "kiln-jest-"))
afterAll(() => rmSync(cacheDirectory, { recursive: true }))

/** Runs Node, in which the sources of packages are found; `output` is all it wrote. */
const runNode = (...args: ReadonlyArray<string>) => {
  const { NODE_OPTIONS: _, NODE_TEST_CONTEXT: __, ...env } = process.env
  const { status, stderr, stdout } = spawnSync(process.execPath, ["--conditions=@kiln/source", ...args], {
    cwd: support,
    encoding: "utf8",
    env: { ...env, NO_COLOR: "1" },
    timeout: 60_000,
  })
  return { status, output: stdout + stderr }
}

const hidePeers = `--import=${pathToFileURL(join(support, "hidePeers.ts")).href}`

it("works in node:test, where neither vitest nor fast-check is installed", () => {
  const { output, status } = runNode(hidePeers, "--test", "--test-reporter=tap", join(support, "inNodeTest.ts"))
  expect(output).toContain("ok 1 - runs a job")
  expect(output).toContain("not ok 2 - says what is wrong")
  expect(output).toContain("not ok 3 - ends its process after a failed test that stopped no engine")
  expect(output).toMatch(/the speech_synthesis job job_\w+ to have failed with job_timeout: it is done after 1 attempt/)
  expect(output).toMatch(/expected: ["']?job_timeout/)
  expect(status).toBe(1)
})

it("works in jest, as native ES modules", () => {
  const config = {
    rootDir: support,
    testMatch: ["**/inJest.ts"],
    cacheDirectory,
    extensionsToTreatAsEsm: [".ts"],
    transform: { "[.]ts$": join(support, "stripTypes.ts") },
    testEnvironmentOptions: { customExportConditions: ["@kiln/source", "node", "node-addons"] },
    watchman: false,
  }
  const jest = createRequire(import.meta.url).resolve("jest/bin/jest")
  const { output, status } = runNode(
    "--experimental-vm-modules",
    jest,
    "--runInBand",
    "--config",
    JSON.stringify(config),
  )
  expect(output).toContain("✓ kiln in jest runs a job")
  expect(output).toContain("✓ kiln in jest runs a kind of the program's")
  expect(output).toContain("✓ kiln in jest runs the example's kind")
  expect(output).toContain("✕ kiln in jest says what is wrong")
  expect(output).toMatch(/to have failed with job_timeout: it is done after 1 attempt/)
  expect(output).toContain("Tests:       1 failed, 3 passed, 4 total")
  expect(status).toBe(1)
})

const importing = (door: string) =>
  runNode(hidePeers, "--input-type=module", "--eval", `console.log(Object.keys(await import("${door}")).sort().join())`)

it.each([
  ["@kiln/testing", "testEngine"],
  ["@kiln/testing/assert", "assertDone"],
])("%s is imported without its optional peers", (door, name) => {
  const { output, status } = importing(door)
  expect(output.trim().split(",")).toContain(name)
  expect(status).toBe(0)
})

it.each([
  ["@kiln/testing/vitest", "vitest"],
  ["@kiln/conformance", "vitest"],
])("%s names the missing peer", (door, peer) => {
  const { output, status } = importing(door)
  expect(output).toContain(`${peer} is not installed`)
  expect(status).toBe(1)
})

// npm installs no package whose optional peer has another version than the program's, and only the matchers need this one.
it("can be installed beside an older vitest", () => {
  const { peerDependencies } = createRequire(import.meta.url)("../../package.json")
  expect(peerDependencies.vitest).toBe(">=3.0.0")
})
