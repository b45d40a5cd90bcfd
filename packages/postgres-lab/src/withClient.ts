import pg from "pg"

/** Runs `use` on a separate connection, which is closed afterwards. */
export const withClient = async <A>(url: string, use: (client: pg.Client) => Promise<A>): Promise<A> => {
  const client = new pg.Client({ connectionString: url, application_name: "postgres-lab" })
  // A connection that breaks while idle emits an event that would otherwise end this process.
  client.on("error", () => {})
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.end()
  }
}
