import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { keyScopes } from "@kiln/core/kinds"
import { KeyDirectory, type Project } from "@kiln/core/ports"
import { failed, misused } from "../CommandFailed.ts"
import { findProject } from "../findProject.ts"
import { nameProblem } from "../nameProblem.ts"
import { newKey } from "@kiln/http"
import { keyDetails, keyDocument } from "../keyDocument.ts"
import { answer, formatTime } from "../Output.ts"
import { recordChange } from "../recordChange.ts"
import { keyLimitFlag, limitFields, limitsWith } from "./keyLimitFlag.ts"
import { duration } from "../settings/SettingType.ts"
import { withStores } from "../withStores.ts"

const flags = {
  project: Flag.String("project").pipe(Flag.withDescription("Name or id of the project it belongs to")),
  mode: Flag.Literals("mode", ["test", "live"]).pipe(
    Flag.withDescription("test creates sandbox jobs, live creates live jobs"),
  ),
  scopes: Flag.Literals("scope", keyScopes).pipe(
    Flag.withDescription("A permission of the key; may be repeated"),
    Flag.atLeast(1),
  ),
  name: Flag.String("name").pipe(Flag.withDescription("Display name in lists"), Flag.optional),
  limits: keyLimitFlag,
  expires: Flag.String("expires").pipe(
    Flag.withDescription("How long the key is valid, like 90d or 24h; it never expires if omitted"),
    Flag.optional,
  ),
}

const expiryOf = Effect.fnUntraced(function* (expires: Option.Option<string>) {
  if (Option.isNone(expires)) return null
  const parsed = duration(expires.value)
  if (!parsed.ok) return yield* misused(`--expires ${parsed.rule}`)
  return (yield* Clock.currentTimeMillis) + parsed.value
})

const describe = (key: string, id: string, project: Project, expiresAt: number | null): string =>
  [
    key,
    "",
    `The key is shown only once; it cannot be read from the store again.`,
    `Its id is ${id}, its project ${project.name} (${project.id}), and it ${expiresAt === null ? "does not expire" : `expires at ${formatTime(expiresAt)}`}.`,
  ].join("\n")

export const keyCreate = Command.make(
  "create",
  flags,
  ({ expires, limits: given, mode, name, project: nameOrId, scopes }) =>
    Effect.gen(function* () {
      const problem = Option.isSome(name) ? nameProblem(name.value) : undefined
      if (problem !== undefined) return yield* misused(`--name ${problem}`)
      const expiresAt = yield* expiryOf(expires)
      const limits = yield* limitsWith({}, given)
      return yield* withStores(
        Effect.gen(function* () {
          const project = yield* findProject(nameOrId)
          const { key, record } = yield* newKey({
            projectId: project.id,
            mode,
            scopes: keyScopes.filter((scope) => scopes.includes(scope)),
            name: Option.getOrNull(name),
            expiresAt,
            limits,
          })
          const created = yield* (yield* KeyDirectory)
            .createKey(record)
            .pipe(recordChange({ action: "key.create", subject: record.id, details: keyDetails(record) }))
          if (created === undefined) return yield* failed(`the project ${JSON.stringify(nameOrId)} no longer exists`)
          yield* answer({
            json: {
              ...keyDocument(key, record),
              name: record.name,
              expires_at: formatTime(expiresAt),
              ...(given.length > 0 && { limits: limitFields(limits) }),
            },
            text: describe(key, record.id, project, expiresAt),
          })
        }),
      )
    }),
).pipe(
  Command.withDescription("Create an API key and show it once"),
  Command.withExamples([
    {
      command: "kiln key create --project default --mode test --scope audio.create --scope images.create --expires 90d",
      description: "A test key for everything, for 90 days",
    },
  ]),
)
