import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { isId } from "@kiln/core/domain"
import { operatorRoles, type OperatorToken, OperatorTokens } from "@kiln/core/ports"
import { newOperatorToken } from "@kiln/dashboard/token"
import { failed, misused } from "../CommandFailed.ts"
import { nameProblem } from "../nameProblem.ts"
import { answer, formatTable, formatTime } from "../Output.ts"
import { recordChange } from "../recordChange.ts"
import { duration } from "../settings/SettingType.ts"
import { withStores } from "../withStores.ts"

const flags = {
  name: Flag.String("name").pipe(Flag.withDescription("The person or program that uses it, for the audit log")),
  roles: Flag.Literals("role", operatorRoles).pipe(
    Flag.withDescription(
      "view reads everything but callers' data, operate also changes it, content also reads callers' data; may be repeated",
    ),
    Flag.atLeast(1),
  ),
  expires: Flag.String("expires").pipe(
    Flag.withDescription("How long the token is valid, like 90d or 24h; it never expires if omitted"),
    Flag.optional,
  ),
}

const expiryOf = Effect.fnUntraced(function* (expires: Option.Option<string>) {
  if (Option.isNone(expires)) return null
  const parsed = duration(expires.value)
  if (!parsed.ok) return yield* misused(`--expires ${parsed.rule}`)
  return (yield* Clock.currentTimeMillis) + parsed.value
})

const statusOf = ({ expiresAt, revokedAt }: OperatorToken, now: number): "active" | "revoked" | "expired" => {
  if (revokedAt !== null) return "revoked"
  return expiresAt !== null && expiresAt <= now ? "expired" : "active"
}

const create = Command.make("create", flags, ({ expires, name, roles: given }) =>
  Effect.gen(function* () {
    const problem = nameProblem(name)
    if (problem !== undefined) return yield* misused(`--name ${problem}`)
    const expiresAt = yield* expiryOf(expires)
    const roles = operatorRoles.filter((role) => given.includes(role))
    return yield* withStores(
      Effect.gen(function* () {
        const { record, secret } = yield* newOperatorToken({ name, roles, expiresAt })
        const token = yield* (yield* OperatorTokens)
          .createToken(record)
          .pipe(recordChange({ action: "token.create", subject: record.id, details: { name, roles } }))
        const lasts = expiresAt === null ? "does not expire" : `expires at ${formatTime(expiresAt)}`
        yield* answer({
          json: { token: secret, token_id: token.id, name, roles, expires_at: formatTime(expiresAt) },
          text: `${secret}\n\nThe token is shown only once. Its id is ${token.id}, and it ${lasts}.`,
        })
      }),
    )
  }),
).pipe(
  Command.withDescription("Create a token for the operator's page and show it once"),
  Command.withExamples([
    { command: "kiln token create --name alice --role operate --expires 90d", description: "For a person on call" },
    { command: "kiln token create --name wall --role view", description: "For a screen that changes nothing" },
  ]),
)

const list = Command.make("list", {}, () =>
  withStores(
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const tokens = (yield* (yield* OperatorTokens).listTokens).map((token) => ({
        token_id: token.id,
        name: token.name,
        roles: token.roles,
        status: statusOf(token, now),
        created_at: formatTime(token.createdAt),
        expires_at: formatTime(token.expiresAt),
        revoked_at: formatTime(token.revokedAt),
      }))
      const rows = tokens.map((token) => [
        token.token_id,
        token.name,
        token.roles.join(" "),
        token.status,
        token.created_at,
        token.expires_at,
      ])
      yield* answer({
        json: { tokens },
        text: formatTable(
          ["TOKEN", "NAME", "ROLES", "STATUS", "CREATED", "EXPIRES"],
          rows,
          "no tokens yet; create one with kiln token create (see --help)",
        ),
      })
    }),
  ),
).pipe(Command.withDescription("List the tokens of the operator's page, without their secrets"))

const revoke = Command.make(
  "revoke",
  { id: Argument.String("TOKEN_ID").pipe(Argument.withDescription("The token's id, from `kiln token list`")) },
  ({ id }) =>
    withStores(
      Effect.gen(function* () {
        const token = isId("tok", id)
          ? yield* (yield* OperatorTokens).revokeToken(id).pipe(recordChange({ action: "token.revoke", subject: id }))
          : undefined
        if (token === undefined) return yield* failed(`there is no token ${id}: see \`kiln token list\``)
        const revokedAt = formatTime(token.revokedAt)
        yield* answer({
          json: { token_id: token.id, revoked_at: revokedAt },
          text: `${token.id} was revoked at ${revokedAt}; its next request is rejected`,
        })
      }),
    ),
).pipe(Command.withDescription("Revoke a token of the operator's page permanently"))

export const tokenCommand = Command.make("token").pipe(
  Command.withDescription("Create, list and revoke tokens of the operator's page"),
  Command.withSubcommands([create, list, revoke]),
)
