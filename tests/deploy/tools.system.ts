import { spawnSync } from "node:child_process"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { repository } from "../support/plantTree.ts"
import { findProgram, Nginx } from "./support/Nginx.ts"

/** What the programs say that will read the files in `deploy/`, where they are installed. */

const inDeploy = (path: string): string => join(repository, "deploy", path)

const run = (program: string, args: ReadonlyArray<string>) => {
  const { status, stderr, stdout } = spawnSync(program, args, { encoding: "utf8" })
  return { status, output: `${stdout}${stderr}` }
}

describe("the files in deploy/", () => {
  it("are accepted by nginx", ({ skip }) => {
    const nginx = findProgram("nginx")
    if (nginx === undefined) return skip("nginx is not installed")
    expect(Nginx.test(nginx)).toMatch(/test is successful/)
  })

  it("are accepted by Caddy", ({ skip }) => {
    const caddy = findProgram("caddy")
    if (caddy === undefined) return skip("Caddy is not installed")
    const { output, status } = run(caddy, [
      "adapt",
      "--validate",
      "--config",
      inDeploy("caddy/Caddyfile"),
      "--adapter",
      "caddyfile",
    ])
    expect(status, output).toBe(0)
    expect(output).toMatch(/"dial":"127\.0\.0\.1:8787"/)
  })
})
