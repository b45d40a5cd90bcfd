import pg from "pg"

/** Opens a pool as a program has it. Ignores errors of its connections: dropping the database cuts those that are still closing. */
export const callersPool = (url: string, max = 5): pg.Pool => {
  const pool = new pg.Pool({ connectionString: url, max })
  pool.on("error", () => undefined)
  pool.on("connect", (client) => client.on("error", () => undefined))
  return pool
}
