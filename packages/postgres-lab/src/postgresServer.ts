import { connect } from "node:net"
import { text } from "node:stream/consumers"
import { inject, type ProvidedContext } from "vitest"

let url: Promise<string> | undefined

/** The URL of the server all test files share, of a role that may do everything; the first question starts it. */
export const postgresServer = (): Promise<string> => (url ??= askFor(inject("kilnPostgres")))

/** Answers what the global setup provided with the server's URL. */
export const askFor = async (provided: ProvidedContext["kilnPostgres"]): Promise<string> => {
  if ("url" in provided) return provided.url
  const socket = connect(provided.port, "127.0.0.1")
  socket.write(provided.token)
  const answer = JSON.parse(await text(socket)) as { readonly url?: string; readonly problem?: string }
  if (answer.url === undefined) throw new Error(`no Postgres for the tests: ${answer.problem}`)
  return answer.url
}
