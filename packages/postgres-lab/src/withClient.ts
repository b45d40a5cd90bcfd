import pg from "pg"

/** Runs `use` on a connection of its own, which is closed afterwards. */
export const withClient = async <A>(url: string, use: (client: pg.Client) => Promise<A>): Promise<A> => {
  const client = new pg.Client({ connectionString: url, application_name: "postgres-lab" })
  // A connection that dies while it is idle says so with an event that would otherwise end this process.
  client.on("error", () => {})
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.end()
  }
}
