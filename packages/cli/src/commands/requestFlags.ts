import { readFileSync } from "node:fs"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Flag from "effect/cli/Flag"
import { type CommandFailed, failed, misused } from "../CommandFailed.ts"

/** Flags that change the request of a job. */
export const requestFlags = {
  request: Flag.String("request").pipe(
    Flag.withMetavar("JSON"),
    Flag.withDescription("The request of the new job, instead of that of the failed one; everything runs again"),
    Flag.optional,
  ),
  requestFile: Flag.String("request-file").pipe(
    Flag.withMetavar("FILE"),
    Flag.withDescription("A file with that request; - is standard input"),
    Flag.optional,
  ),
}

export interface RequestGiven {
  readonly request: Option.Option<string>
  readonly requestFile: Option.Option<string>
}

/** Whether the flags change the request. */
export const changesRequest = ({ request, requestFile }: RequestGiven): boolean =>
  Option.isSome(request) || Option.isSome(requestFile)

const parsed = (text: string, flag: string): Effect.Effect<unknown, CommandFailed> =>
  Effect.suspend(() => {
    try {
      return Effect.succeed(JSON.parse(text) as unknown)
    } catch {
      return misused(`${flag} must be JSON, such as '{"voice":"rosa"}'`)
    }
  })

/** Returns the request that the flags give. */
export const requestGiven = ({
  request,
  requestFile,
}: RequestGiven): Effect.Effect<{ readonly request?: unknown }, CommandFailed> =>
  Effect.gen(function* () {
    if (Option.isSome(request) && Option.isSome(requestFile))
      return yield* misused("give either --request or --request-file, not both")
    if (Option.isSome(request)) return { request: yield* parsed(request.value, "--request") }
    if (Option.isNone(requestFile)) return {}
    const path = requestFile.value
    const text = yield* Effect.suspend(() => {
      try {
        return Effect.succeed(readFileSync(path === "-" ? 0 : path, "utf8"))
      } catch (error) {
        return failed(`--request-file cannot be read: ${error instanceof Error ? error.message : String(error)}`)
      }
    })
    return { request: yield* parsed(text, "the content of --request-file") }
  })
