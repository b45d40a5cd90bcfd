import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { Operator } from "@kiln/core/effect"
import { makeDashboard } from "@kiln/dashboard/effect"
import { causeMessage, type CommandFailed, failed } from "../CommandFailed.ts"
import { answer, Json } from "../Output.ts"
import { ProcessIo } from "../ProcessIo.ts"
import { findSetting } from "../settings/settingFiles.ts"
import { frame, type Picture } from "../top/frame.ts"
import { live } from "../top/live.ts"
import { readUrl } from "../try/target.ts"
import { withOperator } from "../withOperator.ts"

const flags = {
  url: Flag.String("url").pipe(
    Flag.withDescription(
      "Address of a management port, such as http://127.0.0.1:9464; the database is read without one",
    ),
    Flag.optional,
  ),
  token: Flag.String("token").pipe(
    Flag.withDescription(
      "Operator's token for --url, or KILN_MANAGEMENT_TOKEN; not needed on the machine of the service",
    ),
    Flag.optional,
  ),
  once: Flag.Boolean("once").pipe(Flag.withDescription("Print the overview once"), Flag.withDefault(false)),
}

/** Answers a request to the operator's API. */
type Ask = (path: string) => Effect.Effect<Response, CommandFailed>

const read = (ask: Ask): Effect.Effect<Picture, CommandFailed> => {
  const get = (path: string) =>
    Effect.gen(function* () {
      const response = yield* ask(`/admin/v1/${path}`)
      const text = yield* Effect.promise(() => response.text())
      if (response.ok) return JSON.parse(text) as never
      const token = response.status === 401 || response.status === 403
      return yield* failed(
        `the operator's API answers ${response.status}${token ? ": pass --token, which kiln token create shows" : ""}`,
      )
    })
  return Effect.all({ overview: get("overview"), history: get("history?span=1h") })
}

const show = (picture: Effect.Effect<Picture, CommandFailed>, once: boolean) =>
  Effect.gen(function* () {
    const { inputIsTerminal, terminal } = yield* ProcessIo
    if (!once && !(yield* Json) && terminal?.output === true && inputIsTerminal) return yield* live(picture)
    const found = yield* picture
    const columns = terminal?.output === true ? terminal.columns : Infinity
    const { history, overview } = found
    yield* answer({ json: { ...overview, history }, text: frame(found, columns).join("\n") })
  })

const fromService = (url: string, token: string | undefined): Ask => {
  const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` }
  return (path) =>
    Effect.tryPromise({
      try: (signal) => fetch(`${url}${path}`, { headers, signal }),
      catch: (cause) =>
        failed(
          `${url} does not respond (${causeMessage((cause as Error).cause ?? cause)}): check --url and KILN_MANAGEMENT_PORT`,
        ),
    })
}

export const topCommand = Command.make("top", flags, ({ once, token, url: given }) =>
  Effect.gen(function* () {
    const url = yield* readUrl(given, "--url", undefined)
    if (url !== undefined) {
      const found = findSetting((yield* ProcessIo).environment, "KILN_MANAGEMENT_TOKEN")
      const fromSetting = found.ok ? found.given?.text : undefined
      return yield* show(read(fromService(url, Option.getOrUndefined(token) ?? fromSetting)), once)
    }
    yield* withOperator((operator) =>
      Effect.gen(function* () {
        const authorize = () => Effect.succeed({ name: "kiln top", roles: ["view"] } as const)
        const handle = yield* Effect.provideService(
          makeDashboard({ authorize, findings: undefined, version: undefined }),
          Operator,
          operator,
        )
        const ask: Ask = (path) =>
          handle(
            { request: new Request(`http://localhost${path}`), remoteAddress: undefined },
            path.replace(/\?.*/, ""),
          )
        yield* show(read(ask), once)
      }).pipe(Effect.scoped),
    )
  }),
).pipe(Command.withDescription("Show queues, throughput, failures, workers and spending, live"))
