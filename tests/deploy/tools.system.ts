import { spawnSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { temporaryDirectory } from "@kiln/service-lab"
import { repository } from "../support/plantTree.ts"
import { findProgram, Nginx } from "./support/Nginx.ts"
import { defaultValues, type Manifest, manifestsIn, renderChart } from "./support/renderChart.ts"

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

  it("are accepted by systemd, which finds them hardened", ({ skip }) => {
    const analyze = findProgram("systemd-analyze")
    if (analyze === undefined) return skip("systemd is not installed")
    using directory = temporaryDirectory()
    // As instances, in whose names `%i` stands for a port or a number.
    const units = [
      ["kiln-api@.service", "kiln-api@8787.service"],
      ["kiln-api@.socket", "kiln-api@8787.socket"],
      ["kiln-worker@.service", "kiln-worker@1.service"],
    ].map(([from = "", to = ""]) => {
      const path = join(directory.path, to)
      // The program is installed on no machine that only tests it.
      const text = readFileSync(inDeploy(`systemd/${from}`), "utf8").replace(
        "ExecStart=/usr/bin/node ",
        `ExecStart=${process.execPath} `,
      )
      writeFileSync(path, text)
      return path
    })
    const verified = run(analyze, ["verify", "--recursive-errors=no", ...units])
    // Units of the machine itself may have problems of their own.
    expect(verified.output.split("\n").filter((line) => line.includes("kiln"))).toEqual([])
    for (const unit of units.filter((path) => path.endsWith(".service"))) {
      const { output } = run(analyze, ["security", "--offline=true", unit])
      const [, level] = /Overall exposure level for \S+: ([\d.]+)/.exec(output) ?? []
      expect(Number(level), output.slice(-300)).toBeLessThanOrEqual(2)
    }
  })

  it("are accepted by Helm, which renders what the other tests check", ({ skip }) => {
    const helm = findProgram("helm")
    if (helm === undefined) return skip("Helm is not installed")
    const linted = run(helm, ["lint", "--strict", inDeploy("helm/kiln")])
    expect(linted.status, linted.output).toBe(0)
    const { output, status } = run(helm, ["template", "kiln", inDeploy("helm/kiln")])
    expect(status, output).toBe(0)
    const sorted = (manifests: ReadonlyArray<Manifest>) =>
      manifests.toSorted((one, other) =>
        `${one.kind} ${one.metadata.name}`.localeCompare(`${other.kind} ${other.metadata.name}`),
      )
    expect(sorted(manifestsIn(output))).toEqual(sorted(renderChart(defaultValues())))
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
