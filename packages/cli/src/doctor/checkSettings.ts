import * as Effect from "effect/Effect"
import { engineSettings } from "../KilnConfig.ts"
import { loadConfig } from "../loadModule.ts"
import { type Environment, readSettings, type Settings } from "../Settings.ts"
import { openAiProblem } from "../settings/openAi.ts"
import { type Check, ok, problem, warning } from "./Check.ts"

const name = "settings"

/** Checks the environment and the config file. Without valid `settings`, nothing else can be checked. */
export const checkSettings = (
  environment: Environment,
): Effect.Effect<{ readonly check: Check; readonly settings?: Settings }> =>
  Effect.gen(function* () {
    const read = readSettings(environment)
    if (!read.ok) {
      const findings = read.problems.map(({ rule, setting }) => ({
        message: `${setting} ${rule}`,
        details: { setting },
      }))
      return { check: problem(name, "some settings are invalid", findings) }
    }
    const { settings, warnings } = read
    const config = yield* Effect.result(loadConfig(settings.configPath))
    if (config._tag === "Failure")
      return { settings, check: problem(name, "the config file cannot be used", [{ message: config.failure.message }]) }
    if (settings.provider !== undefined && config.success.providers !== undefined)
      return {
        settings,
        check: problem(name, "KILN_PROVIDER and the providers in KILN_CONFIG both configure live jobs"),
      }
    const keyless = settings.provider?._tag === "OpenAi" ? openAiProblem(settings.provider) : undefined
    if (keyless !== undefined) return { settings, check: problem(name, keyless) }
    const { leaseDurationMs, runLimitMs } = engineSettings(config.success, settings.engine)
    if (leaseDurationMs > runLimitMs)
      return {
        settings,
        check: problem(name, "the lease is longer than the maximum run time of a job: lower KILN_LEASE_SECONDS"),
      }
    const findings = warnings.map((message) => ({ message }))
    return {
      settings,
      check:
        findings.length === 0
          ? ok(name, "all settings are valid")
          : warning(name, "some settings have no effect", findings),
    }
  })
