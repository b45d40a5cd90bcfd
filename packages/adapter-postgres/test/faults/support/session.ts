import pg from "pg"

/** A session of somebody else. */
export const session = async (url: string): Promise<pg.Client & AsyncDisposable> => {
  const client = new pg.Client({ connectionString: url, application_name: "somebody else" })
  client.on("error", () => undefined)
  await client.connect()
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.end() })
}
