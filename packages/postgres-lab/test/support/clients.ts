import pg from "pg"

/** Connections that are closed at the end of the test, whatever happened to their server. */
export class Clients implements AsyncDisposable {
  readonly #open: Array<pg.Client> = []

  async connect(url: string, applicationName = "test", config: pg.ClientConfig = {}): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: url, application_name: applicationName, ...config })
    client.on("error", () => {})
    this.#open.push(client)
    await client.connect()
    return client
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#open.map((client) => client.end().catch(() => {})))
  }
}

/** Returns the rejection of a promise; undefined if it resolves. */
export const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  )

/** Runs a query and returns the first column of the first row. */
export const ask = async (url: string, question: string): Promise<unknown> => {
  await using clients = new Clients()
  const { rows } = await (await clients.connect(url)).query({ text: question, rowMode: "array" })
  return rows[0]?.[0]
}
