import { expect } from "vitest"
import { runInProcess } from "../support/runInProcess.ts"

type Environment = Readonly<Record<string, string>>

interface DiagnosedCheck {
  readonly name: string
  readonly status: "ok" | "warning" | "problem" | "skipped"
  readonly summary: string
  readonly remedy: string | null
  readonly findings: ReadonlyArray<{ readonly message: string; readonly remedy: string | null }>
}

/** The doctor's document. */
export interface Diagnosis {
  readonly ok: boolean
  readonly checks: ReadonlyArray<DiagnosedCheck>
}

/** Secrets that every examined environment has, and no output may show. */
const secrets = { signing: "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA", provider: "sk-canary-5f3c" }

export const withSecrets: Environment = {
  KILN_SIGNING_KEYS: `own:${secrets.signing}`,
  KILN_PROVIDER: "openai",
  KILN_OPENAI_API_KEY: secrets.provider,
}

/** Runs the doctor in this process. Its exit code must agree with its document, and everything wrong must have a remedy. */
export const diagnose = async (env: Environment, ...flags: ReadonlyArray<string>): Promise<Diagnosis> => {
  const { exit, stderr, stdout } = await runInProcess(["doctor", ...flags, "--json"], env)
  const diagnosis = JSON.parse(stdout) as Diagnosis
  expect(exit).toBe(diagnosis.ok ? 0 : 1)
  const { password = "" } = URL.parse(env["DATABASE_URL"] ?? "") ?? {}
  for (const secret of [...Object.values(secrets), password].filter((text) => text !== ""))
    expect(stdout + stderr).not.toContain(secret)
  for (const { findings, name, remedy, status } of diagnosis.checks)
    if (status === "warning" || status === "problem")
      for (const fix of findings.length === 0 ? [remedy] : findings.map((finding) => finding.remedy))
        expect({ name, fix }).toEqual({ name, fix: expect.stringMatching(/\w{3}/) })
  return diagnosis
}

/** One check of a diagnosis: its status, what was seen, and the remedies. */
export const checkOf = ({ checks }: Diagnosis, name: string) => {
  const check = checks.find((each) => each.name === name)
  if (check === undefined) throw new Error(`there is no check ${name}: ${checks.map((each) => each.name).join()}`)
  const { findings, remedy, status, summary } = check
  return {
    status,
    seen: [summary, ...findings.map(({ message }) => message)].join("\n"),
    remedy: [remedy, ...findings.map((finding) => finding.remedy)].filter((text) => text !== null).join("\n"),
  }
}

/** The names of the checks with this status. */
export const named = ({ checks }: Diagnosis, ...statuses: ReadonlyArray<string>): ReadonlyArray<string> =>
  checks.filter(({ status }) => statuses.includes(status)).map(({ name }) => name)
