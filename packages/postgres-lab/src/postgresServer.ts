import { connect } from "node:net"
import { text } from "node:stream/consumers"
import { inject, type ProvidedContext } from "vitest"

let url: Promise<string> | undefined

/** Returns the URL of the server shared by all test files, with a superuser role; the first call starts it. */
export const postgresServer = (): Promise<string> => (url ??= askFor(inject("kilnPostgres")))

/** Resolves the global setup's value to the server's URL. */
export const askFor = async (provided: ProvidedContext["kilnPostgres"]): Promise<string> => {
  if ("url" in provided) return provided.url
  const socket = connect(provided.port, "127.0.0.1")
  socket.write(provided.token)
  const answer = JSON.parse(await text(socket)) as { readonly url?: string; readonly problem?: string }
  if (answer.url === undefined) throw new Error(`could not start Postgres for the tests: ${answer.problem}`)
  return answer.url
}
