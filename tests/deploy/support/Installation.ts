import { freshDatabase } from "@kiln/postgres-lab"
import { KilnProcess, type Listening, serve, startLimitMs, temporaryDirectory, until } from "@kiln/service-lab"
import { type HeldSocket, holdSocket } from "./heldSocket.ts"

export type StoreName = "SQLite" | "Postgres"

export interface InstallationOptions {
  /** Whether a supervisor holds the sockets of the API processes while these restart. */
  readonly heldSockets: boolean
  /** `KILN_STOP_DELAY` */
  readonly stopDelay: string
}

type ApiProcess = KilnProcess & { readonly listening: Listening }

/** Two API processes on fixed ports, and a worker. */
export class Installation implements AsyncDisposable {
  readonly ports: readonly [number, number]
  readonly #left: AsyncDisposableStack
  readonly #sockets: readonly [HeldSocket, HeldSocket]
  readonly #env: Readonly<Record<string, string>>
  readonly #heldSockets: boolean
  readonly #apis: Array<ApiProcess> = []
  #key = ""

  /** Starts the processes. `publicUrl` gets the ports of the API processes, and returns where callers reach them. */
  static async start(
    store: StoreName,
    options: InstallationOptions,
    publicUrl: (ports: readonly [number, number]) => string | Promise<string>,
  ): Promise<Installation> {
    await using left = new AsyncDisposableStack()
    const data = left.use(temporaryDirectory())
    const database = store === "Postgres" ? await freshDatabase() : undefined
    if (database !== undefined) left.defer(() => database.dispose())
    const sockets = [left.use(holdSocket()), left.use(holdSocket())] as const
    const ports = [sockets[0].port, sockets[1].port] as const
    // The ports stay reserved for long enough: the kernel gives out free ports in turn.
    if (!options.heldSockets) for (const socket of sockets) socket[Symbol.dispose]()
    const installation = new Installation(left.move(), sockets, options, {
      KILN_DATA_DIR: data.path,
      KILN_RATE_LIMITS: "off",
      KILN_QUEUE_CAP: "0",
      KILN_UPLOAD_CAP: "0",
      KILN_STOP_DELAY: options.stopDelay,
      KILN_TRUSTED_PROXIES: "127.0.0.1",
      PUBLIC_URL: await publicUrl(ports),
      ...(database !== undefined && { DATABASE_URL: database.url }),
    })
    await installation.#startAll()
    return installation
  }

  private constructor(
    left: AsyncDisposableStack,
    sockets: readonly [HeldSocket, HeldSocket],
    { heldSockets }: InstallationOptions,
    env: Readonly<Record<string, string>>,
  ) {
    this.#left = left
    this.#sockets = sockets
    this.ports = [sockets[0].port, sockets[1].port]
    this.#heldSockets = heldSockets
    this.#env = env
  }

  async #startAll(): Promise<void> {
    await this.start(0)
    this.#key = this.#apis[0]?.listening.first_key?.key ?? ""
    await this.start(1)
    const worker = this.#left.use(new KilnProcess(["serve"], { ...this.#env, KILN_ROLE: "worker" }))
    await worker.says(/the worker is running/, "stderr", startLimitMs)
  }

  /** A key for sandbox jobs. */
  get key(): string {
    return this.#key
  }

  api(index: 0 | 1): ApiProcess {
    const api = this.#apis[index]
    if (api === undefined) throw new Error("not started")
    return api
  }

  /** Starts an API process, and waits until it is ready. */
  async start(index: 0 | 1): Promise<void> {
    const { descriptor, port } = this.#sockets[index]
    const env = { ...this.#env, KILN_ROLE: "api", PORT: String(port) }
    this.#apis[index] = this.#left.use(await serve(env, this.#heldSockets ? { socket: descriptor } : {}))
    const ready = `http://127.0.0.1:${port}/readyz`
    await until(() =>
      fetch(ready).then(
        ({ ok }) => ok || undefined,
        () => undefined,
      ),
    )
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#left.disposeAsync()
  }
}
