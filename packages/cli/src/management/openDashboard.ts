import { createHash, timingSafeEqual } from "node:crypto"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { byToken, type Findings, type Handle, makeDashboard, recordHistory } from "@kiln/dashboard/effect"
import type { Check } from "../doctor/Check.ts"
import type { Environment } from "../settings/settingFiles.ts"
import type { ManagementPlace } from "../settings/management.ts"

/** The checks of the doctor that read little and ask nobody but the store and this machine. */
const checks: ReadonlySet<string> = new Set([
  "disk",
  "migrations",
  "copy",
  "upkeep",
  "purges",
  "clock",
  "backups",
  "keys",
  "signing-keys",
  "live",
  "providers",
  "workers",
  "queue",
  "schedules",
  "deliveries",
])

const findingOf = ({ findings, name, remedy, status, summary }: Check): Findings => {
  if (status !== "problem" && status !== "warning") return []
  const parts = findings.map(({ message, remedy: own }) => ({ message, remedy: own ?? null }))
  return [{ check: name, status, summary, remedy: remedy ?? null, findings: parts }]
}

const readFindings = (environment: Environment): Effect.Effect<Findings> =>
  Effect.gen(function* () {
    const { examine, Examination } = yield* Effect.promise(() => import("../doctor/examine.ts"))
    const found = yield* Effect.provideService(examine(environment, { limitMs: 20_000 }), Examination, {
      includes: (name) => checks.has(name),
      report: () => undefined,
    })
    return found
      .flatMap(findingOf)
      .toSorted((one, other) => Number(other.status === "problem") - Number(one.status === "problem"))
  })

const digest = (text: string): Buffer => createHash("sha256").update(text).digest()

/** Builds the operator's page for the management port, until the scope closes. The token of the metrics may view it. */
export const openDashboard = ({ token }: ManagementPlace, environment: Environment, version: string) =>
  Effect.gen(function* () {
    yield* Effect.forkScoped(recordHistory)
    const expected = token && digest(Redacted.value(token))
    const authorize = byToken({
      allowLocal: token === undefined,
      isStaticToken: (given) => expected !== undefined && timingSafeEqual(digest(given), expected),
    })
    const handle: Handle = yield* makeDashboard({ authorize, findings: readFindings(environment), version })
    return handle
  })
