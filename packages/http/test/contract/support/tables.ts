import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { Api } from "./Api.ts"
import { type Service, type ServiceSettings, storeNames } from "./Service.ts"
import { startService } from "./startService.ts"

/** One rule of the contract. */
export interface Row {
  readonly name: string
  readonly run: (api: Api) => Promise<void>
}

/** The rules of the contract on one subject. */
export interface Table {
  readonly name: string
  readonly rows: ReadonlyArray<Row>
  /** Rows share something (switches, one key's bucket), so that each waits for the one before. */
  readonly inTurn: boolean
}

/** On Postgres the service consists of separate processes, which take a second to start, or many on a busy machine. */
const startLimitMs = 120_000
/** A row runs on every store at the same time, and some send thousands of requests. How soon each is answered is checked apart. */
const rowLimitMs = 240_000

type Rows = ReadonlyArray<Row | ReadonlyArray<Row>>

export const table = (name: string, ...rows: Rows): Table => ({ name, rows: rows.flat(), inTurn: false })

export const tableInTurn = (name: string, ...rows: Rows): Table => ({ name, rows: rows.flat(), inTurn: true })

export const row = (name: string, run: (api: Api) => Promise<void>): Row => ({ name, run })

/** One row for each case of a list. */
export const rows = <Case>(
  cases: ReadonlyArray<Case>,
  name: (one: Case) => string,
  run: (api: Api, one: Case) => Promise<void>,
): ReadonlyArray<Row> => cases.map((one) => row(name(one), (api) => run(api, one)))

/** What the service logged about the requests that a text names. */
const loggedAbout = (text: string, { logs }: Service): ReadonlyArray<string> => {
  const requests = text.match(/req_[0-9a-z]{26}/gi) ?? []
  return logs.filter((line) => requests.some((id) => line.includes(id)))
}

/** Runs a row against one service. A failure names the store and says what the service logged about the request. */
export const runRow = async ({ run }: Row, service: Service): Promise<ReadonlyArray<unknown>> => {
  const api = new Api(service)
  try {
    await run(api)
  } catch (error) {
    if (error instanceof Error)
      error.message = [`[${service.store}] ${error.message}`, ...loggedAbout(error.message, service)].join("\n")
    throw error
  }
  return api.transcript
}

const secrets: ReadonlyArray<readonly [name: string, pattern: RegExp]> = [
  ["API key", /kiln_(test|live)_[0-9A-Za-z]{40}/],
  ["authorization header", /\bBearer +\S/i],
  ["signature", /\bs=[\w-]{43}/],
  // Texts of requests that begin so are meant to be found again.
  ["prompt or file", /canary-text/],
]

/** Runs tables against a service on each store of the tier. All of them must give the same answers, row by row. */
export const runTables = (title: string, settings: ServiceSettings, ...tables: ReadonlyArray<Table>): void => {
  describe(title, () => {
    const services: Array<Service> = []
    beforeAll(async () => {
      services.push(...(await Promise.all(storeNames.map((store) => startService(store, settings)))))
    }, startLimitMs)
    afterAll(async () => {
      await Promise.all(services.map((service) => service.stop()))
    })
    // Most rows have separate keys and do not affect each other: while one waits, another runs.
    for (const { inTurn, name, rows } of tables) {
      describe(name, { concurrent: !inTurn }, () => {
        it.each(rows)("$name", { timeout: rowLimitMs }, async (row) => {
          const [first, ...others] = await Promise.all(services.map((service) => runRow(row, service)))
          for (const other of others) expect(other, "the stores disagree").toEqual(first)
        })
      })
    }
    // After all rows: what they sent, got and provoked must not be in the log.
    it.each(secrets)("the log holds no %s", (_, secret) => {
      for (const { logs } of services) expect(logs.filter((line) => secret.test(line))).toEqual([])
    })
  })
}
