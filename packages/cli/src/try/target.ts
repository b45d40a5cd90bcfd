import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Flag from "effect/cli/Flag"
import { type CommandFailed, misused } from "../CommandFailed.ts"
import { ProcessIo } from "../ProcessIo.ts"
import { findSetting } from "../settings/settingFiles.ts"
import type { Service } from "./Service.ts"

export const targetFlags = {
  url: Flag.String("url").pipe(
    Flag.withDescription(
      "Address of a running service, or KILN_URL; without one, the command starts a temporary service with sandbox models",
    ),
    Flag.optional,
  ),
  key: Flag.String("key").pipe(
    Flag.withDescription(
      "API key of the service; other users see arguments, so prefer KILN_API_KEY or KILN_API_KEY_FILE",
    ),
    Flag.optional,
  ),
}

export interface TargetFlags {
  readonly url: Option.Option<string>
  readonly key: Option.Option<string>
}

/** Reads an argument, or the variable that stands for it. */
const readValue = (argument: Option.Option<string>, variable: string | undefined) =>
  Effect.gen(function* () {
    if (Option.isSome(argument)) return argument.value
    if (variable === undefined) return undefined
    const found = findSetting((yield* ProcessIo).environment, variable)
    if (!found.ok) return yield* misused(`${found.setting} ${found.rule}`)
    return found.given?.text
  })

/** Returns the address without a slash at its end. */
export const readUrl = (argument: Option.Option<string>, flag: string, variable?: string) =>
  Effect.gen(function* () {
    const text = yield* readValue(argument, variable)
    if (text === undefined) return undefined
    const protocol = URL.canParse(text) ? new URL(text).protocol : ""
    if (protocol !== "http:" && protocol !== "https:")
      return yield* misused(`${flag} must be an address such as http://127.0.0.1:8787`)
    if (/\/v1\/?$/.test(text)) return yield* misused(`${flag} is the address of the service, without /v1`)
    return text.replace(/\/+$/, "")
  })

/** Returns the address that the arguments or the environment name. */
export const givenUrl = ({ url }: Pick<TargetFlags, "url">) => readUrl(url, "--url", "KILN_URL")

/** Returns the service that the arguments or the environment name; undefined if they name none. */
export const givenService = (flags: TargetFlags): Effect.Effect<Service | undefined, CommandFailed> =>
  Effect.gen(function* () {
    const url = yield* givenUrl(flags)
    const key = yield* readValue(flags.key, "KILN_API_KEY")
    if (url !== undefined && key === undefined)
      return yield* misused("a running service needs an API key: set KILN_API_KEY, or pass --key")
    if (url === undefined && key !== undefined)
      return yield* misused(
        "an API key needs the address of its service: pass --url http://127.0.0.1:8787, or unset KILN_API_KEY to try kiln without a service",
      )
    return url === undefined || key === undefined ? undefined : { url, key }
  })

/** Opens the service of a command: the given one, or a temporary one that ends with the scope. */
export const openService = (given: Service | undefined): Effect.Effect<Service, CommandFailed, Scope.Scope> =>
  given === undefined
    ? Effect.flatMap(
        Effect.promise(() => import("./temporaryService.ts")),
        ({ temporaryService }) => temporaryService,
      )
    : Effect.succeed(given)
