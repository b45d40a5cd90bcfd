import { globSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { parse } from "yaml"
import { describe, expect, it } from "vitest"
import { repository } from "../support/plantTree.ts"

/** The files in `deploy/` agree with the program and with each other. */

const read = (path: string): string => readFileSync(join(repository, path), "utf8")
const files = globSync("deploy/**/*", { cwd: repository, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => join(entry.parentPath, entry.name).slice(repository.length + 1))

/** What the supervisor must allow at least: the stop delay, the default drain, and the margin after which kiln ends itself. */
const leastStopSeconds = (stopDelay: number): number => stopDelay + 25 + 25
const numberIn = (text: string, pattern: RegExp): number => Number(pattern.exec(text)?.[1] ?? NaN)

it("name only settings that exist, also as files and credentials", () => {
  const settings = new Set(
    [...read("docs/configuration.md").matchAll(/`([A-Z][A-Z_]+)`/g)].map(([, name = ""]) => name),
  )
  // Of the files themselves.
  for (const name of ["KILN_HOST", "KILN_UPSTREAMS", "KILN_SECRETS", "KILN_IMAGE", "KILN_TARBALL"]) settings.add(name)
  const named = files.flatMap((path) =>
    [...read(path).matchAll(/\b(?:KILN_[A-Z_]+|DATABASE_URL(?:_FILE)?)\b/g)].map(([name]) => ({ path, name })),
  )
  expect(named.length).toBeGreaterThan(20)
  expect(named.filter(({ name }) => !settings.has(name.replace(/_FILE$/, "")))).toEqual([])
})

it("are all explained in a guide", () => {
  const guides = globSync("docs/guides/*.md", { cwd: repository })
    .map((path) => read(path))
    .join("\n")
  const explained = [...guides.matchAll(/\]\(\.\.\/\.\.\/(deploy\/[^)#]+)\)/g)].map(([, path = ""]) => path)
  const tests = /\.test\.\w+$/
  expect(
    files.filter(
      (path) => !tests.test(path) && !explained.some((known) => path === known || path.startsWith(`${known}/`)),
    ),
  ).toEqual([])
})

describe("systemd units", () => {
  it.each(["kiln-api@.service", "kiln-worker@.service"])(
    "%s waits longer than the shutdown takes, and restarts",
    (name) => {
      const unit = read(`deploy/systemd/${name}`)
      const delay = name.startsWith("kiln-api") ? numberIn(unit, /KILN_STOP_DELAY=(\d+)s/) : 0
      expect(numberIn(unit, /^TimeoutStopSec=(\d+)$/m)).toBeGreaterThanOrEqual(leastStopSeconds(delay))
      expect(unit).toMatch(/^Restart=always$/m)
      expect(unit).toMatch(/^LoadCredential=DATABASE_URL:/m)
      expect(unit).toMatch(/^StateDirectory=kiln$/m)
    },
  )

  it("of API processes and workers are hardened in the same way, with the same account", () => {
    const hardening = (name: string) => /^User=[\s\S]*(?=^\[Install\])/m.exec(read(`deploy/systemd/${name}`))?.[0]
    expect(hardening("kiln-worker@.service")).toBe(hardening("kiln-api@.service"))
    expect(hardening("kiln-api@.service")).toContain("SystemCallFilter")
  })
})

describe("the compose file", () => {
  interface Service {
    readonly image?: string
    readonly environment?: Readonly<Record<string, string>>
    readonly read_only?: boolean
    readonly stop_grace_period?: string
    readonly secrets?: ReadonlyArray<string>
    readonly networks?: ReadonlyArray<string>
    readonly depends_on?: unknown
    readonly healthcheck?: unknown
  }
  interface Compose {
    readonly services: Readonly<Record<string, Service>>
    readonly secrets: object
    readonly networks: object
    readonly volumes: object
  }
  const compose = parse(read("deploy/compose/compose.yaml"), { merge: true }) as Compose
  const kiln = ["migrate", "api1", "api2", "worker"]

  it("runs kiln read-only, with secrets from files, and waits longer than its shutdown takes", () => {
    expect(Object.keys(compose.services)).toEqual(["postgres", ...kiln, "caddy"])
    for (const name of kiln) {
      const service = compose.services[name]
      const delay = numberIn(service?.environment?.["KILN_STOP_DELAY"] ?? "0s", /^(\d+)s$/)
      expect(service?.read_only, name).toBe(true)
      expect(numberIn(service?.stop_grace_period ?? "", /^(\d+)s$/), name).toBeGreaterThanOrEqual(
        leastStopSeconds(delay),
      )
      expect(service?.environment?.["DATABASE_URL_FILE"], name).toBe("/run/secrets/database_url")
    }
  })

  it("names only secrets and networks that it declares", () => {
    const services = Object.values(compose.services)
    const declared = (part: object) => expect.arrayContaining(Object.keys(part))
    expect(Object.keys(compose.secrets)).toEqual(declared(compose.secrets))
    for (const { networks = [], secrets = [] } of services) {
      expect(Object.keys(compose.secrets)).toEqual(expect.arrayContaining([...secrets]))
      expect(Object.keys(compose.networks)).toEqual(expect.arrayContaining([...networks]))
    }
  })

  it("gives Caddy a check that notices a stop within the delay", () => {
    const caddy = read("deploy/caddy/Caddyfile")
    const noticed = numberIn(caddy, /health_interval (\d+)s/) + numberIn(caddy, /health_timeout (\d+)s/)
    for (const name of ["api1", "api2"])
      expect(numberIn(compose.services[name]?.environment?.["KILN_STOP_DELAY"] ?? "", /^(\d+)s$/)).toBeGreaterThan(
        noticed,
      )
  })
})

it("the image and its Dockerfile agree", () => {
  const [script, dockerfile] = [read("deploy/image/oci.sh"), read("deploy/image/Dockerfile")]
  for (const setting of ["PATH=/usr/local/bin", "HOST=0.0.0.0", "KILN_DATA_DIR=/data"]) {
    expect(script).toContain(`--config.env ${setting}`)
    expect(dockerfile).toContain(setting)
  }
  expect(script).toContain("--config.user 65532:65532")
  expect(dockerfile).toContain("USER 65532:65532")
  const { devDependencies } = JSON.parse(read("package.json")) as { devDependencies: { node: string } }
  expect(dockerfile).toMatch(new RegExp(`^FROM node:${devDependencies.node.slice(1)}\\.\\d+\\.\\d+-`, "m"))
})
