import { Client } from "pg"
import Database from "better-sqlite3"
import type { Engine, OpenOptions, Payload } from "./Engine.ts"

/** The part of openworkflow 0.10 that is used here. */
interface Openworkflow {
  readonly OpenWorkflow: new (options: { readonly backend: unknown }) => {
    readonly defineWorkflow: (
      spec: { readonly name: string },
      run: (context: { readonly input: Payload }) => Promise<object>,
    ) => { readonly run: (input: Payload) => Promise<unknown> }
    readonly newWorker: (options: { readonly concurrency: number }) => { readonly start: () => Promise<void> }
  }
}
interface Backends {
  readonly BackendPostgres: { readonly connect: (url: string) => Promise<unknown> }
  readonly BackendSqlite: { readonly connect: (path: string) => unknown }
}

const load = async <Module>(name: string): Promise<Module> => (await import(name)) as Module

const unfinished =
  "SELECT 1 FROM workflow_runs WHERE status NOT IN ('completed', 'succeeded', 'failed', 'canceled') LIMIT 1"

const openPostgres = async (url: string) => {
  const { BackendPostgres } = await load<Backends>("openworkflow/postgres")
  const backend = await BackendPostgres.connect(url)
  const observer = new Client({ connectionString: url })
  await observer.connect()
  const question = unfinished.replace("workflow_runs", "openworkflow.workflow_runs")
  return { backend, isEmpty: async () => (await observer.query(question)).rowCount === 0 }
}

const openSqlite = async (path: string) => {
  const { BackendSqlite } = await load<Backends>("openworkflow/sqlite")
  const backend = BackendSqlite.connect(path)
  const observer = new Database(path, { readonly: true }).prepare(unfinished)
  return { backend, isEmpty: () => Promise.resolve(observer.get([]) === undefined) }
}

/** Runs of a workflow without steps. It has no call for many runs at once. */
export const openworkflow: Engine = {
  open: async ({ onStart, place, slots }: OpenOptions) => {
    const { OpenWorkflow } = await load<Openworkflow>("openworkflow")
    const { backend, isEmpty } = await (place.startsWith("postgres") ? openPostgres(place) : openSqlite(place))
    const client = new OpenWorkflow({ backend })
    const workflow = client.defineWorkflow({ name: "noop" }, async ({ input }) => {
      await onStart(input)
      return {}
    })
    const worker = client.newWorker({ concurrency: slots ?? 100 })
    return {
      add: (payload) => workflow.run(payload),
      addMany: (payloads) => Promise.all(payloads.map((payload) => workflow.run(payload))),
      start: () => worker.start(),
      isEmpty,
    }
  },
}
